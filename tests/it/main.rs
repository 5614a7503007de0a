//! The integration tests, in one binary so that two cores link once.
#![allow(unreachable_pub, reason = "nothing outside of a test binary can use it anyway")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod bed;
mod control_plane;
mod node;
mod process;
mod tree;
