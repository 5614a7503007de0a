//! Talking to the API server: server-side apply under one field manager, owners, errors by class, events.

pub mod apply;
pub mod delete;
pub mod error;
pub mod events;
pub mod leases;
pub mod owner;
