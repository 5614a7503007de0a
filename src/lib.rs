//! etcd-warden keeps an etcd fleet on Kubernetes restorable: it refuses what could not be restored, takes verified
//! snapshots, and restores in place without leaving an empty or stranded cluster.
//!
//! The rooms, from the ground up; a room uses only those before it, and the architecture test holds it to that:
//! - [`api`]: wire types and the values they are made of
//! - [`policy`], [`rules`], [`checks`]: what is refused and why, as pure functions
//! - [`net`]: names, connections and TLS, for the two that follow
//! - [`etcd`], [`store`]: talking to an etcd cluster, and to where snapshots are kept
//! - [`k8s`]: talking to the API server
//! - [`admission`], [`controller`], [`agent`]: the three programs; they do not know each other
//! - [`runtime`]: what every long-running process needs, with no word of the product
//! - [`cli`], [`cmd`]: parse, wire, run

pub mod agent;
pub mod api;
pub mod etcd;
pub mod net;
pub mod store;

#[cfg(feature = "server")]
pub mod admission;
#[cfg(feature = "server")]
pub mod checks;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
pub mod cmd;
#[cfg(feature = "server")]
pub mod controller;
#[cfg(feature = "server")]
pub mod k8s;
#[cfg(feature = "server")]
pub mod policy;
#[cfg(feature = "server")]
pub mod rules;
#[cfg(feature = "server")]
pub mod runtime;
