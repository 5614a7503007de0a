//! How agents are put into Pods: environment, volumes and security of the containers that run them, and what they said
//! when they ended. The names are those of [`crate::api::agent`].

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Capabilities, ContainerStatus, EnvVar, EnvVarSource, KeyToPath, PodSecurityContext, SeccompProfile,
    SecretKeySelector, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};

use crate::api::agent::{Report, env, exit};
use crate::api::common::S3Location;

/// Path of the agent in our image.
pub const AGENT: &str = "/etcd-warden-agent";
/// User and group of all our Pods: that of the etcd image.
pub const USER: i64 = 65532;

const S3_CA_VOLUME: &str = "s3-ca";
const S3_CA_DIR: &str = "/etc/etcd-warden/s3-ca";

/// What the `restricted` Pod security standard asks of a Pod.
#[must_use]
pub fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// What the `restricted` Pod security standard asks of a container.
#[must_use]
pub fn container_security(read_only_root: bool) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        read_only_root_filesystem: Some(true).filter(|_| read_only_root),
        ..SecurityContext::default()
    }
}

/// An environment variable with this value.
#[must_use]
pub fn plain(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

/// An environment variable with the value of a Secret's key.
#[must_use]
pub fn from_secret(name: &str, secret: &str, key: &str, optional: bool) -> EnvVar {
    let selector =
        SecretKeySelector { name: secret.to_owned(), key: key.to_owned(), optional: Some(true).filter(|_| optional) };
    let source = EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}

/// Keys of a Secret as files.
#[must_use]
pub fn secret_volume(name: &str, secret: &str, keys: &[(&str, &str)]) -> Volume {
    let items = keys
        .iter()
        .map(|(key, path)| KeyToPath { key: (*key).to_owned(), path: (*path).to_owned(), mode: None })
        .collect();
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        items: Some(items),
        ..SecretVolumeSource::default()
    };
    Volume { name: name.to_owned(), secret: Some(source), ..Volume::default() }
}

/// A read-only mount of a volume.
#[must_use]
pub fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// A writable mount of a volume.
#[must_use]
pub fn writable(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

/// What a container needs to reach one S3 location.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct S3Access {
    /// Environment of the agent.
    pub env: Vec<EnvVar>,
    /// The private CA, if there is one.
    pub volumes: Vec<Volume>,
    /// Where it is mounted.
    pub mounts: Vec<VolumeMount>,
}

/// Environment and volumes for an S3 location. Credentials come from the Secret by reference and are nowhere in the
/// Pod's own spec.
#[must_use]
pub fn s3_access(location: &S3Location) -> S3Access {
    let secret = location.credentials_secret_ref.name.as_str();
    let mut access = S3Access {
        env: vec![
            plain(env::S3_ENDPOINT, &location.endpoint),
            plain(env::S3_BUCKET, &location.bucket),
            plain(env::S3_KEY, location.key.clone().unwrap_or_default()),
            plain(env::S3_REGION, location.region.clone().unwrap_or_default()),
            plain(env::S3_FORCE_PATH_STYLE, location.force_path_style.unwrap_or(false).to_string()),
            from_secret(env::AWS_ACCESS_KEY_ID, secret, env::AWS_ACCESS_KEY_ID, false),
            from_secret(env::AWS_SECRET_ACCESS_KEY, secret, env::AWS_SECRET_ACCESS_KEY, false),
            from_secret(env::AWS_SESSION_TOKEN, secret, env::AWS_SESSION_TOKEN, true),
        ],
        ..S3Access::default()
    };
    if let Some(ca) = &location.ca_secret_ref {
        access.volumes.push(secret_volume(S3_CA_VOLUME, &ca.name, &[(ca.key(), "ca.crt")]));
        access.mounts.push(read_only(S3_CA_VOLUME, S3_CA_DIR));
        access.env.push(plain(env::S3_CA_FILE, format!("{S3_CA_DIR}/ca.crt")));
    }
    access
}

/// For a Job whose agent runs in this container: what the agent calls final is not tried again, and what the node did to
/// the Pod does not count as a try.
#[must_use]
pub fn pod_failure_policy(container: &str) -> PodFailurePolicy {
    let on_exit_codes = PodFailurePolicyOnExitCodesRequirement {
        container_name: Some(container.to_owned()),
        operator: "In".to_owned(),
        values: vec![i32::from(exit::CONFIGURATION), i32::from(exit::TERMINAL)],
    };
    let disrupted =
        PodFailurePolicyOnPodConditionsPattern { type_: "DisruptionTarget".to_owned(), status: "True".to_owned() };
    PodFailurePolicy {
        rules: vec![
            PodFailurePolicyRule {
                action: "FailJob".to_owned(),
                on_exit_codes: Some(on_exit_codes),
                on_pod_conditions: None,
            },
            PodFailurePolicyRule {
                action: "Ignore".to_owned(),
                on_exit_codes: None,
                on_pod_conditions: Some(vec![disrupted]),
            },
        ],
    }
}

/// How a container's last ended run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Exit code.
    pub code: i32,
    /// Why the kubelet says it ended, such as `Error` or `OOMKilled`.
    pub reason: String,
    /// The agent's last word, if it had one.
    pub report: Option<Report>,
}

/// The last ended run of a container: the present state if that is an end, else the state before.
#[must_use]
pub fn ended(status: &ContainerStatus) -> Option<Ended> {
    let of = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().and_then(|state| state.terminated.clone())
    };
    let terminated = of(&status.state).or_else(|| of(&status.last_state))?;
    let report = terminated.message.as_deref().and_then(|message| serde_json::from_str(message.trim()).ok());
    Some(Ended { code: terminated.exit_code, reason: terminated.reason.unwrap_or_default(), report })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStateWaiting};

    use super::*;
    use crate::api::common::CaSecretRef;

    #[test]
    fn credentials_are_references_and_never_values() {
        let access = s3_access(&S3Location {
            endpoint: "https://s3.example".into(),
            bucket: "b".into(),
            credentials_secret_ref: k8s_openapi::api::core::v1::LocalObjectReference { name: "creds".into() },
            ca_secret_ref: Some(CaSecretRef { name: "ca".into(), key: None }),
            ..S3Location::default()
        });
        for name in [env::AWS_ACCESS_KEY_ID, env::AWS_SECRET_ACCESS_KEY, env::AWS_SESSION_TOKEN] {
            let var = access.env.iter().find(|var| var.name == name).unwrap();
            assert!(var.value.is_none() && var.value_from.is_some(), "{name}");
        }
        assert!(access.env.iter().any(|var| var.name == env::S3_CA_FILE));
        let items = access.volumes[0].secret.as_ref().unwrap().items.as_ref().unwrap();
        assert_eq!(items.len(), 1, "only the certificate is mounted");
    }

    #[test]
    fn the_last_word_of_a_crash_loop_is_in_the_state_before() {
        let said = r#"{"task":"restore","ok":false,"reason":"ObjectNotFound","message":"no such object","retryable":false,"durationSeconds":0.2}"#;
        let status = ContainerStatus {
            state: Some(ContainerState {
                waiting: Some(ContainerStateWaiting { reason: Some("CrashLoopBackOff".into()), message: None }),
                ..ContainerState::default()
            }),
            last_state: Some(ContainerState {
                terminated: Some(ContainerStateTerminated {
                    exit_code: 3,
                    reason: Some("Error".into()),
                    message: Some(said.into()),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        };
        let ended = ended(&status).unwrap();
        assert_eq!(ended.code, 3);
        assert_eq!(ended.report.unwrap().reason, crate::api::agent::Reason::ObjectNotFound);
    }
}
