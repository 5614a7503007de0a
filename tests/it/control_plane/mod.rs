//! Tests against a real etcd and kube-apiserver.

mod admission;
mod admission_load;
mod admission_shown;
mod backups;
mod bed;
mod bench;
mod chart;
mod clusters;
mod crash_matrix;
mod crds;
mod examples;
mod guides;
mod kept_backups;
mod leader;
mod parity;
mod plans;
mod policies;
mod restore_sabotage;
mod restore_stage;
mod restores;
mod restores_with_pods;
mod stand_in_kubelet;
mod takeover;
mod two_replicas;
