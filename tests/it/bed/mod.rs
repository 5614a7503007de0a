//! The test bed: real parts, brought up and taken down.
