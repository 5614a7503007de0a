//! Policy documents and what comes of them: findings about one object.

mod finding;

pub use finding::{Action, Basis, Cause, Finding};
