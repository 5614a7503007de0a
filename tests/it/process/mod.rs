//! Tests of our programs as processes, against real etcd and S3 servers.

mod admission;
mod agents;
mod bed_etcd;
mod bed_fault_proxy;
mod bed_s3;
mod command_line;
mod guides;
