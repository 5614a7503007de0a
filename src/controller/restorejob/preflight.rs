//! What the preflight Job and its Pods say. Pure.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::build::{INSTALL, PREFLIGHT};
use super::observe::Rehearsing;
use crate::api::agent::env;
use crate::controller::agent_pod::{Ended, ended};

/// How the rehearsal stands.
#[must_use]
pub fn outcome(job: &Job, pods: &[Pod]) -> Rehearsing {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let holds =
        |type_: &str| conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True");
    let last = pods.iter().filter_map(last_end).max_by_key(|(at, _)| *at).map(|(_, ended)| ended);
    if holds("Complete").is_some() {
        // What the restored cluster is compared with later; without it nothing could be proven.
        return match last.and_then(|ended| ended.report).and_then(|report| report.rehearsal) {
            Some(rehearsal) => Rehearsing::Passed(Some(rehearsal)),
            None => {
                Rehearsing::Failed("it ended well, but its Pod was gone before it could tell what it found".to_owned())
            }
        };
    }
    if let Some(failed) = holds("Failed") {
        let job_says = || {
            let (reason, message) = (failed.reason.as_deref(), failed.message.as_deref());
            format!("{}: {}", reason.unwrap_or_default(), message.unwrap_or_default())
        };
        return Rehearsing::Failed(last.map_or_else(job_says, |ended| told(&ended)));
    }
    Rehearsing::Running(match last {
        Some(ended) if ended.code == 0 => "the rehearsal has passed; its Job is finishing".to_owned(),
        Some(ended) => format!("the rehearsal is tried again: {}", told(&ended)),
        None => "the rehearsal runs".to_owned(),
    })
}

/// The etcd version whose image rehearses.
#[must_use]
pub fn target_version(job: &Job) -> Option<String> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    let variables = pod.containers.iter().filter_map(|container| container.env.as_ref()).flatten();
    let version = variables.into_iter().find(|variable| variable.name == env::TARGET_ETCD_VERSION)?;
    version.value.clone()
}

fn told(ended: &Ended) -> String {
    match &ended.report {
        Some(report) => format!("{}: {}", report.reason.as_str(), report.message),
        None => format!("the agent ended with code {} ({}) and said nothing", ended.code, ended.reason),
    }
}

/// The end of the Pod's preflight container, or of the one that installs the agent, and when it was.
fn last_end(pod: &Pod) -> Option<(Option<k8s_openapi::jiff::Timestamp>, Ended)> {
    let status = pod.status.as_ref()?;
    let all = || status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let of = |name: &str| all().find(|container| container.name == name).and_then(ended);
    let found = of(PREFLIGHT).or_else(|| of(INSTALL).filter(|ended| ended.code != 0))?;
    Some((pod.metadata.creation_timestamp.as_ref().map(|time| time.0), found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(code: i32, message: &str, created: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "creationTimestamp": created},
            "status": {"containerStatuses": [{"name": "preflight", "image": "i", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": "Error", "message": message}}}]},
        }))
        .unwrap()
    }

    fn job(condition: &str) -> Job {
        serde_json::from_value(json!({"status": {"conditions": [
            {"type": condition, "status": "True", "reason": "R", "message": "M"}]}}))
        .unwrap()
    }

    const REPORT: &str = r#"{"task":"preflight","ok":false,"reason":"ChecksumMismatch","message":"not the recorded bytes","retryable":false,"durationSeconds":1}"#;
    const PASSED: &str = r#"{"task":"preflight","ok":true,"reason":"Completed","message":"","retryable":false,"durationSeconds":1,
        "rehearsal":{"revision":7,"keys":3,"hashKV":1,"hashRevision":7,"dbBytes":20480,"authEnabled":false,"etcdutlVersion":"3.6.16"}}"#;

    #[test]
    fn the_agents_last_word_is_what_counts() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        let pods = [pod(1, "garbage", early), pod(3, REPORT, late)];
        assert_eq!(
            outcome(&job("Failed"), &pods),
            Rehearsing::Failed("ChecksumMismatch: not the recorded bytes".to_owned())
        );
        match outcome(&job("Complete"), &[pod(1, REPORT, early), pod(0, PASSED, late)]) {
            Rehearsing::Passed(Some(rehearsal)) => assert_eq!((rehearsal.revision, rehearsal.keys), (7, 3)),
            other => panic!("{other:?}"),
        }
        assert!(matches!(outcome(&Job::default(), &pods), Rehearsing::Running(said) if said.contains("tried again")));
        let finishing = outcome(&Job::default(), &[pod(0, PASSED, late)]);
        assert!(matches!(&finishing, Rehearsing::Running(said) if said.contains("finishing")), "{finishing:?}");
        assert!(matches!(outcome(&job("Complete"), &[]), Rehearsing::Failed(said) if said.contains("gone")));
        assert_eq!(outcome(&job("Failed"), &[]), Rehearsing::Failed("R: M".to_owned()));
        assert!(
            matches!(outcome(&job("Failed"), &[pod(137, "", late)]), Rehearsing::Failed(said) if said.contains("137"))
        );
    }
}
