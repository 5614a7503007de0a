//! What CEL says badly: templates, schedules, version steps, names, S3 coordinates, options.

pub mod class;
pub mod template;
