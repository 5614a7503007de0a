//! Tests against a real etcd and kube-apiserver.

mod admission;
mod bed;
mod chart;
mod leader;
