//! The wire API: every kind with its defaults and reasons, the contract with the agents, and the values (versions,
//! quantities, durations, S3 URIs, names) that both sides parse the same way.

pub mod agent;
pub mod duration;
pub mod s3endpoint;
pub mod s3uri;
pub mod secret;
pub mod version;

#[cfg(feature = "server")]
pub mod backup;
#[cfg(feature = "server")]
pub mod backupclass;
#[cfg(feature = "server")]
pub mod backupjob;
#[cfg(feature = "server")]
pub mod certmanager;
#[cfg(feature = "server")]
pub mod common;
#[cfg(feature = "server")]
pub mod condition;
#[cfg(feature = "server")]
pub mod crd;
#[cfg(feature = "server")]
pub mod etcdcluster;
#[cfg(feature = "server")]
pub mod etcddefrag;
#[cfg(feature = "server")]
pub mod etcdmember;
#[cfg(feature = "server")]
pub mod etcdsnapshot;
#[cfg(feature = "server")]
mod kind;
#[cfg(feature = "server")]
pub mod names;
#[cfg(feature = "server")]
pub mod plan;
#[cfg(feature = "server")]
pub mod quantity;
#[cfg(feature = "server")]
pub mod restorejob;
#[cfg(feature = "server")]
pub mod strategy;
