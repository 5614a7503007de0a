//! Tests against a real etcd and kube-apiserver.

mod bed;
mod leader;
