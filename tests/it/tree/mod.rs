//! Tests that read the tree itself: rooms, generated files, dependencies.

mod architecture;
mod chart;
mod crds;
mod defects;
mod guides;
mod policies;
