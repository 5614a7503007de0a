//! Settings, read from the environment that the contract names. An empty value counts as absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure::Failure;
use crate::api::agent::{Consistency, env};
use crate::api::s3uri::snapshot_key;
use crate::api::secret::Secret;
use crate::api::version::EtcdVersion;
use crate::etcd::{ClientIdentity, Credentials, Options, Roots, TlsMaterial};
use crate::store::{DirLocation, Location, S3Credentials, S3Location};

/// Where values come from: the process's environment, or a table in tests.
pub(crate) struct Vars<'a>(pub(crate) &'a (dyn Fn(&str) -> Option<String> + Sync));

impl Vars<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn require(&self, name: &str) -> Result<String, Failure> {
        self.get(name).ok_or_else(|| Failure::configuration(format!("{name} is not set")))
    }

    fn parse<T: std::str::FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| Failure::configuration(format!("{name} is {text:?}: expected {expected}")))
    }

    /// A credential, from the variable or from the file that its `_FILE` sibling names. Its value is never quoted.
    fn secret(&self, name: &str) -> Result<Option<Secret>, Failure> {
        if let Some(value) = self.get(name) {
            return Ok(Some(Secret::new(value)));
        }
        let Some(path) = self.get(&format!("{name}{}", env::FILE_SUFFIX)) else { return Ok(None) };
        let text = String::from_utf8(read(name, Path::new(&path))?)
            .map_err(|_| Failure::configuration(format!("{name}: the file {path} is not text")))?;
        Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))))
    }

    fn file(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.get(name).map(|path| read(name, Path::new(&path))).transpose()
    }
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        Failure::configuration(format!("{name} names {}, which cannot be read", path.display())).because(error)
    })
}

/// What every task knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    /// How long the task may take.
    pub(crate) deadline: Option<Duration>,
}

/// Settings of `snapshot`.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotSettings {
    /// Client URLs of the source.
    pub(crate) endpoints: Vec<String>,
    /// TLS and authentication of the source.
    pub(crate) options: Options,
    /// Where the snapshot goes.
    pub(crate) destination: Location,
    /// Name of the EtcdSnapshot.
    pub(crate) name: String,
    /// UID of the EtcdSnapshot.
    pub(crate) uid: String,
    /// What the source may be without a quorum.
    pub(crate) consistency: Consistency,
}

/// What `preflight` and `restore` know of the snapshot and of what is to become of it.
#[derive(Clone, Debug)]
pub(crate) struct SourceSettings {
    /// Where the snapshot is.
    pub(crate) location: Location,
    /// Recorded size.
    pub(crate) expected_size: Option<u64>,
    /// Recorded SHA-256, lower case.
    pub(crate) expected_sha256: Option<String>,
    /// Version that made the snapshot.
    pub(crate) origin: Option<EtcdVersion>,
    /// Version that will boot on it.
    pub(crate) target: Option<EtcdVersion>,
    /// How far the revision is raised.
    pub(crate) bump: i64,
    /// Directory for staging.
    pub(crate) scratch: Option<PathBuf>,
    /// Configured path of etcdutl.
    pub(crate) etcdutl: Option<PathBuf>,
    /// Directories to look for programs in.
    pub(crate) path: Option<String>,
}

/// The member that a snapshot becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberSettings {
    /// Member name.
    pub(crate) name: String,
    /// `--initial-cluster`.
    pub(crate) initial_cluster: String,
    /// `--initial-cluster-token`.
    pub(crate) token: Option<String>,
    /// `--initial-advertise-peer-urls`.
    pub(crate) peer_urls: Option<String>,
}

/// How the rehearsal's etcd is talked to.
#[derive(Clone, Debug)]
pub(crate) struct PreflightSettings {
    /// The snapshot.
    pub(crate) source: SourceSettings,
    /// The member it would become, where given.
    pub(crate) member: Option<MemberSettings>,
    /// Credentials for data with authentication on.
    pub(crate) credentials: Option<Credentials>,
}

/// Settings that every task has.
pub(crate) fn common(vars: &Vars<'_>) -> Result<Common, Failure> {
    let seconds: Option<u64> = vars.parse(env::DEADLINE_SECONDS, "a number of seconds")?;
    Ok(Common { deadline: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs) })
}

/// Settings of `snapshot`.
pub(crate) fn snapshot(vars: &Vars<'_>) -> Result<SnapshotSettings, Failure> {
    let name = vars.require(env::SNAPSHOT_NAME)?;
    let uid = vars.require(env::SNAPSHOT_UID)?;
    let endpoints: Vec<String> = vars
        .require(env::ETCD_ENDPOINTS)?
        .split(',')
        .map(str::trim)
        .filter(|endpoint| !endpoint.is_empty())
        .map(str::to_owned)
        .collect();
    let consistency = match vars.get(env::SNAPSHOT_CONSISTENCY).as_deref() {
        None | Some("linearizable") => Consistency::Linearizable,
        Some("serializable") => Consistency::Serializable,
        Some(other) => {
            return Err(Failure::configuration(format!(
                "{} is {other:?}: expected linearizable or serializable",
                env::SNAPSHOT_CONSISTENCY
            )));
        }
    };
    let destination = location(vars, |prefix| snapshot_key(prefix, &name), true)?;
    Ok(SnapshotSettings { endpoints, options: etcd_options(vars)?, destination, name, uid, consistency })
}

/// Settings of the snapshot's side of `restore` and `preflight`.
pub(crate) fn source(vars: &Vars<'_>) -> Result<SourceSettings, Failure> {
    let sha256 = vars.get(env::EXPECTED_SHA256).map(|text| {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix("sha256:").unwrap_or(&text).to_owned();
        if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(text)
        } else {
            Err(Failure::configuration(format!("{} is not 64 hex digits", env::EXPECTED_SHA256)))
        }
    });
    let version = "an etcd version such as 3.6.16";
    let bump = vars.parse(env::REVISION_BUMP, "a whole number of at least 0")?.unwrap_or(0);
    if bump < 0 {
        return Err(Failure::configuration(format!("{} is negative", env::REVISION_BUMP)));
    }
    Ok(SourceSettings {
        location: location(vars, str::to_owned, false)?,
        expected_size: vars.parse(env::EXPECTED_SIZE, "a number of bytes")?,
        expected_sha256: sha256.transpose()?,
        origin: vars.parse(env::ORIGIN_ETCD_VERSION, version)?,
        target: vars.parse(env::TARGET_ETCD_VERSION, version)?,
        bump,
        scratch: scratch(vars),
        etcdutl: vars.get(env::ETCDUTL_PATH).map(PathBuf::from),
        path: vars.get("PATH"),
    })
}

/// Directory that `restore` fills. It is read before anything else, since an initialised one needs no settings.
pub(crate) fn data_dir(vars: &Vars<'_>) -> Result<PathBuf, Failure> {
    vars.require(env::ETCD_DATA_DIR).map(PathBuf::from)
}

/// Whether the restored cluster has formed, so that nothing is restored any more.
#[must_use]
pub(crate) fn has_formed(vars: &Vars<'_>) -> bool {
    vars.get(env::INITIAL_CLUSTER_STATE).is_some_and(|state| state == "existing")
}

/// Directory for staging.
#[must_use]
pub(crate) fn scratch(vars: &Vars<'_>) -> Option<PathBuf> {
    vars.get(env::SCRATCH_DIR).map(PathBuf::from)
}

/// The member that `restore` makes.
pub(crate) fn member(vars: &Vars<'_>) -> Result<MemberSettings, Failure> {
    Ok(MemberSettings {
        name: vars.require(env::ETCD_MEMBER_NAME)?,
        initial_cluster: vars.require(env::ETCD_INITIAL_CLUSTER)?,
        token: vars.get(env::ETCD_INITIAL_CLUSTER_TOKEN),
        peer_urls: vars.get(env::ETCD_PEER_URLS),
    })
}

/// Settings of `preflight`.
pub(crate) fn preflight(vars: &Vars<'_>) -> Result<PreflightSettings, Failure> {
    let member = match vars.get(env::ETCD_MEMBER_NAME) {
        Some(_) => Some(member(vars)?),
        None => None,
    };
    Ok(PreflightSettings { source: source(vars)?, member, credentials: credentials(vars)? })
}

/// Directory into which `install-tools` copies.
pub(crate) fn tools_dir(vars: &Vars<'_>) -> Result<PathBuf, Failure> {
    vars.require(env::TOOLS_DEST_DIR).map(PathBuf::from)
}

fn credentials(vars: &Vars<'_>) -> Result<Option<Credentials>, Failure> {
    let user = vars.secret(env::ETCD_USERNAME)?;
    let password = vars.secret(env::ETCD_PASSWORD)?;
    Ok(match (user, password) {
        (_, None) => None,
        (user, Some(password)) => {
            Some(Credentials { user: user.map_or_else(|| "root".into(), |user| user.expose().to_owned()), password })
        }
    })
}

fn etcd_options(vars: &Vars<'_>) -> Result<Options, Failure> {
    let ca = vars.file(env::ETCD_TLS_CA_PATH)?;
    let identity = match (vars.file(env::ETCD_TLS_CERT_PATH)?, vars.file(env::ETCD_TLS_KEY_PATH)?) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            Some(ClientIdentity { certificate, key: Secret::new(String::from_utf8_lossy(&key)) })
        }
        _ => {
            return Err(Failure::configuration(format!(
                "{} and {} belong together: only one is set",
                env::ETCD_TLS_CERT_PATH,
                env::ETCD_TLS_KEY_PATH
            )));
        }
    };
    let tls = match (ca, identity) {
        (None, None) => None,
        (ca, identity) => {
            Some(TlsMaterial { roots: ca.map_or(Roots::System(None), Roots::Only), identity, server_name: None })
        }
    };
    Ok(Options { tls, credentials: credentials(vars)?, ..Options::default() })
}

/// The exact place of the object. A snapshot's settings name a prefix or directory; a restore's the object itself.
fn location(vars: &Vars<'_>, key_of: impl Fn(&str) -> String, is_prefix: bool) -> Result<Location, Failure> {
    match vars.require(env::SNAPSHOT_DEST_KIND)?.as_str() {
        "s3" => {
            let key = if is_prefix { vars.get(env::S3_KEY).unwrap_or_default() } else { vars.require(env::S3_KEY)? };
            let path_style = match vars.get(env::S3_FORCE_PATH_STYLE) {
                None => false,
                Some(text) => text.trim().eq_ignore_ascii_case("true"),
            };
            let needed = |name: &str| {
                vars.secret(name)?.ok_or_else(|| {
                    Failure::configuration(format!("neither {name} nor {name}{} is set", env::FILE_SUFFIX))
                })
            };
            Ok(Location::S3(S3Location {
                endpoint: vars.require(env::S3_ENDPOINT)?,
                bucket: vars.require(env::S3_BUCKET)?,
                key: key_of(&key),
                region: vars.get(env::S3_REGION).unwrap_or_else(|| "us-east-1".into()),
                path_style,
                ca: vars.file(env::S3_CA_FILE)?,
                credentials: S3Credentials {
                    access_key: needed(env::AWS_ACCESS_KEY_ID)?,
                    secret_key: needed(env::AWS_SECRET_ACCESS_KEY)?,
                    session_token: vars.secret(env::AWS_SESSION_TOKEN)?,
                },
            }))
        }
        "pvc" => {
            let path = if is_prefix {
                vars.get(env::PVC_SUBPATH).unwrap_or_default()
            } else {
                vars.require(env::PVC_SUBPATH)?
            };
            Ok(Location::Dir(DirLocation {
                root: vars.require(env::PVC_MOUNT_PATH)?.into(),
                path: key_of(path.trim_matches('/')),
            }))
        }
        other => Err(Failure::configuration(format!("{} is {other:?}: expected s3 or pvc", env::SNAPSHOT_DEST_KIND))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::api::agent::Reason;

    fn table(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const S3: [(&str, &str); 8] = [
        ("SNAPSHOT_NAME", "snap"),
        ("SNAPSHOT_UID", "u-1"),
        ("ETCD_ENDPOINTS", "https://a:2379, https://b:2379"),
        ("SNAPSHOT_DEST_KIND", "s3"),
        ("S3_ENDPOINT", "s3.example.org"),
        ("S3_BUCKET", "b"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "key"),
    ];

    #[test]
    fn a_snapshot_needs_its_coordinates_and_defaults_the_rest() {
        let vars = table(&S3);
        let settings = snapshot(&Vars(&|name| vars.get(name).cloned())).unwrap();
        assert_eq!(settings.endpoints, ["https://a:2379", "https://b:2379"]);
        let Location::S3(location) = settings.destination else { panic!("not S3") };
        assert_eq!(
            (location.key.as_str(), location.region.as_str(), location.path_style),
            ("snap.db", "us-east-1", false)
        );
    }

    #[test]
    fn each_missing_setting_is_named() {
        for (missing, _) in S3 {
            let mut vars = table(&S3);
            vars.remove(missing);
            let failure = snapshot(&Vars(&|name| vars.get(name).cloned())).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidConfiguration);
            assert!(failure.full_message().contains(missing), "{}", failure.full_message());
        }
    }

    #[test]
    fn secrets_may_come_from_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from-file\n").unwrap();
        let mut vars = table(&S3);
        vars.remove("AWS_SECRET_ACCESS_KEY");
        vars.insert("AWS_SECRET_ACCESS_KEY_FILE".into(), file.path().to_string_lossy().into_owned());
        let settings = snapshot(&Vars(&|name| vars.get(name).cloned())).unwrap();
        let Location::S3(location) = settings.destination else { panic!("not S3") };
        assert_eq!(location.credentials.secret_key.expose(), "from-file");
    }

    #[test]
    fn a_restore_wants_the_exact_object_and_well_formed_records() {
        let mut vars = table(&[
            ("SNAPSHOT_DEST_KIND", "pvc"),
            ("PVC_MOUNT_PATH", "/restore/src"),
            ("PVC_SUBPATH", "member/snap/db"),
            ("REVISION_BUMP", "1000000"),
        ]);
        let read = source(&Vars(&|name| vars.get(name).cloned())).unwrap();
        assert_eq!(read.bump, 1_000_000);
        for (name, value) in [("REVISION_BUMP", "-1"), ("EXPECTED_SHA256", "abc"), ("ORIGIN_ETCD_VERSION", "new")] {
            let before = vars.insert(name.into(), value.into());
            assert!(source(&Vars(&|name| vars.get(name).cloned())).is_err(), "{name}");
            match before {
                Some(before) => vars.insert(name.into(), before),
                None => vars.remove(name),
            };
        }
        vars.remove("PVC_SUBPATH");
        assert!(source(&Vars(&|name| vars.get(name).cloned())).is_err());
    }
}
