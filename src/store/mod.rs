//! Where snapshots are kept: an S3 bucket or a directory.
