//! Policy documents (ValidatingAdmissionPolicy and its bindings) and what they find in a request. Pure: files are read
//! by whoever has them.

mod allow;
mod builtin;
mod cel;
mod document;
mod finding;
mod in_force;
mod lines;
mod load;
mod message;
mod path;
mod projection;
mod set;
pub mod yaml;

pub use self::cel::definition_faults;
pub use allow::Refused;
pub use builtin::{builtin, builtin_files};
pub use finding::{Action, Basis, Cause, Finding};
pub use in_force::InForce;
pub use load::{File, LoadError, Place, load};
pub use path::{Segment, segments};
pub use set::{Input, ParameterSource, PolicySet, Summary};

#[cfg(test)]
mod tests;
