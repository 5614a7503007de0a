//! Tests against a real etcd and kube-apiserver.

mod admission;
mod backups;
mod bed;
mod chart;
mod examples;
mod leader;
mod restores;
mod stand_in_kubelet;
