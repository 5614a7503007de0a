//! What CEL says badly: templates, schedules, version steps, names, S3 coordinates, options.

pub mod class;
pub mod cron;
pub mod definition;
pub mod options;
pub mod s3;
pub mod template;
