//! What a Pod's status tells, in the words that the controllers think in.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;

/// The container status of this name, init containers included.
#[must_use]
pub fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = [status.container_statuses.as_ref(), status.init_container_statuses.as_ref()];
    all.into_iter().flatten().flatten().find(|container| container.name == name)
}

/// The Pod's address, once it has one.
#[must_use]
pub fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref().filter(|address| !address.is_empty())
}

/// Whether the Pod is on its way out.
#[must_use]
pub fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the Pod ended for good, evicted for example, and will not be started again by the kubelet.
#[must_use]
pub fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}

/// Whether the Pod's condition Ready is True and it is not going.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    !is_going(pod) && condition(pod, "Ready").is_some_and(|condition| condition.0 == "True")
}

/// When the container's present run began; `None` while it does not run.
#[must_use]
pub fn running_since(pod: &Pod, name: &str) -> Option<Timestamp> {
    let running = container(pod, name)?.state.as_ref()?.running.as_ref()?;
    running.started_at.as_ref().map(|time| time.0)
}

/// Whether the container runs now.
#[must_use]
pub fn is_running(pod: &Pod, name: &str) -> bool {
    container(pod, name).and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.as_str(), found.message.as_deref().unwrap_or_default()))
}

/// Whether a condition that the Pod's readiness waits for, besides its containers, is not True yet.
#[must_use]
pub fn waits_for_gate(pod: &Pod, type_: &str) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref()).into_iter().flatten();
    gates.filter(|gate| gate.condition_type == type_).count() > 0
        && condition(pod, type_).is_none_or(|condition| condition.0 != "True")
}

/// What is said of a Pod whose containers run and which is not Ready, when its status tells no more.
pub const SILENT: &str = "it does not answer yet";

/// Whether the status tells no more than that the Pod's containers run and do not answer: then whoever asked them knows
/// better.
#[must_use]
pub fn is_silent(pod: &Pod) -> bool {
    trouble(pod) == SILENT
}

/// Why a Pod is not Ready, as far as its status tells: not scheduled, image not there, container ended, or just not
/// answering yet. One clause for a person, without a full stop.
#[must_use]
pub fn trouble(pod: &Pod) -> String {
    if is_going(pod) {
        return "it is being deleted".to_owned();
    }
    if has_ended(pod) {
        let status = pod.status.clone().unwrap_or_default();
        let why = [status.reason, status.message].into_iter().flatten().collect::<Vec<_>>().join(": ");
        return if why.is_empty() { "it has ended".to_owned() } else { format!("it has ended: {why}") };
    }
    if let Some(("False", why)) = condition(pod, "PodScheduled") {
        return format!("it cannot be scheduled: {why}");
    }
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    let stuck = init.into_iter().chain(main).flatten().find_map(stuck);
    stuck.unwrap_or_else(|| if phase(pod) == "Running" { SILENT } else { "it is starting" }.to_owned())
}

/// What keeps one container from running.
fn stuck(container: &ContainerStatus) -> Option<String> {
    let name = &container.name;
    let state = container.state.clone().unwrap_or_default();
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        // These two are the ordinary way up.
        if matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let why = waiting.message.as_deref().unwrap_or_default();
        let last = container.last_state.as_ref().map(end_of).unwrap_or_default();
        return Some(format!("container {name} waits: {reason}{}{last}", prefixed(": ", why)));
    }
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    Some(format!("container {name} ended with {}", how(ended)))
}

fn end_of(state: &ContainerState) -> String {
    state.terminated.as_ref().map_or_else(String::new, |ended| format!("; it last ended with {}", how(ended)))
}

fn how(ended: &ContainerStateTerminated) -> String {
    let reason = prefixed(": ", ended.reason.as_deref().unwrap_or_default());
    let said = prefixed(": ", &ended.message.as_deref().map(complaint).unwrap_or_default());
    format!("exit code {}{reason}{said}", ended.exit_code)
}

/// What the end of a log complains about: the message and error of its last structured line that does, else its last
/// line.
fn complaint(log: &str) -> String {
    const LONGEST: usize = 300;
    let structured = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| line.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let complains = ["fatal", "panic", "error"].contains(&text("level").as_str());
        complains.then(|| format!("{}{}", text("msg"), prefixed(": ", &text("error"))))
    };
    let last = || log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
    let text = log.lines().rev().find_map(structured).unwrap_or_else(last);
    text.chars().take(LONGEST).collect()
}

fn prefixed(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: &serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn what_a_log_complains_about_is_told() {
        let log = "{\"level\":\"info\",\"msg\":\"starting\"}\n\
            {\"level\":\"fatal\",\"msg\":\"failed to save\",\"error\":\"write wal: no space left on device\"}\n\
            goroutine 1 [running]:\n";
        assert_eq!(complaint(log), "failed to save: write wal: no space left on device");
        assert_eq!(complaint("panic: one\n\nexit status 2\n\n"), "exit status 2");
        assert_eq!(complaint(&"x".repeat(2048)).len(), 300);
    }

    #[test]
    fn each_trouble_is_named() {
        let cases = [
            (
                serde_json::json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                    "message": "0/1 nodes are available: 1 Insufficient cpu."}]}),
                "it cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu.",
            ),
            (
                serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "etcd", "state":
                    {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}),
                "container etcd waits: ImagePullBackOff: no such image",
            ),
            (
                serde_json::json!({"phase": "Running", "containerStatuses": [{"name": "etcd", "state":
                    {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
                "container etcd waits: CrashLoopBackOff; it last ended with exit code 137: OOMKilled",
            ),
            (serde_json::json!({"phase": "Failed", "reason": "Evicted"}), "it has ended: Evicted"),
            (
                serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "etcd", "state":
                {"waiting": {"reason": "PodInitializing"}}}]}),
                "it is starting",
            ),
            (serde_json::json!({"phase": "Running"}), "it does not answer yet"),
        ];
        for (status, text) in cases {
            assert_eq!(trouble(&pod(&status)), text);
        }
    }
}
