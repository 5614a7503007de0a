//! Stand-ins for parts that cannot be had, or cannot be had in the time of a tier. Each one says in its name that it is
//! one, and in its docs what it does differently.

pub mod cert_manager;
pub mod kubelet;
pub mod plane;

pub use kubelet::StandInKubelet;
pub use plane::Plane;
