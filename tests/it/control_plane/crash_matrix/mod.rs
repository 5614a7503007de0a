//! The crash matrix: our server is killed at, or fails in, each of its writes in turn, and every time the world must
//! come to an end that may stand.
//!
//! A [`story::Story`] is told once in peace, which counts the writes, and then once for every [`injection::Injection`].
//! What has become of it is read from etcd's keys and from live objects, never from a status that our server wrote: the
//! crash may have made exactly that wrong.

mod cluster;
mod injection;
pub mod member;
mod restore;
mod run;
mod scene;
mod snapshot;
mod story;
mod twice;

use injection::Fault;
use restore::Wish;
use run::{Matrix, Selection};

/// At least this many in CI; all of them with `make crash-matrix`.
const SAMPLE: usize = 20;
/// So many stories are told side by side, where they are short of nothing but time.
const AT_ONCE: usize = 5;
/// At least this many of each way in which a restore goes.
const RESTORES: usize = 32;

#[tokio::test]
async fn a_member_comes_up_whatever_happens_to_a_write() {
    let matrix = Matrix { story: member::BringUp, faults: &Fault::ALL };
    matrix.run(Selection::Sample(SAMPLE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_comes_up_whatever_happens_to_a_write() {
    let matrix = Matrix { story: cluster::Grow, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::Sample(SAMPLE), AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_taken_once_whatever_happens_to_a_write() {
    let matrix = Matrix { story: snapshot::Take, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::Sample(SAMPLE), AT_ONCE).await;
}

/// M1 among them: what a step has done already is no failure when it is done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_lives_its_life_with_every_write_done_twice() {
    twice::live().await;
}

/// R4, R5, R8, R9: whatever happens to a write of a restore, or of a rollback, the application ends with its old data or
/// with the restored one, its HelmRelease as it was found, and never empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_ends_well_whatever_happens_to_a_write() {
    restore::run(&[Wish::Restored, Wish::Aborted], Selection::Sample(RESTORES)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "hours, every fault at every write: make crash-matrix"]
async fn whole_clusters() {
    let matrix = Matrix { story: cluster::Grow, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::All, AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "hours, every fault at every write: make crash-matrix"]
async fn whole_snapshots() {
    let matrix = Matrix { story: snapshot::Take, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::All, AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "hours, every fault at every write: make crash-matrix"]
async fn whole_restores() {
    restore::run(&[Wish::Restored, Wish::Aborted], Selection::All).await;
}

#[tokio::test]
#[ignore = "hours, every fault at every write: make crash-matrix"]
async fn whole_members() {
    let matrix = Matrix { story: member::BringUp, faults: &Fault::ALL };
    matrix.run(Selection::All).await;
}
