//! The admission server: what the API server asks before it stores an object, and what it is answered.

pub mod defaults;
pub mod review;
