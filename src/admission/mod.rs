//! The admission server: what the API server asks before it stores an object, and what it is answered.
//!
//! It shares nothing with the controllers but the process: own listener, own tasks, own caches.

pub mod cache;
mod check;
mod connection;
pub mod defaults;
pub mod examine;
mod live;
mod metrics;
pub mod policies;
pub mod registration;
pub mod review;
mod router;
pub mod server;
pub mod tls;
mod writers;

pub use server::{Cluster, Error, Parts, Settings, Surroundings, serve};
pub use writers::Writers;
