//! From a container of a Pod to what the runtime runs.

use super::Problem;
use super::volumes::Volumes;
use crate::bed::stand_in::kubelet::context::{self, Context};
use crate::bed::stand_in::kubelet::images::Image;
use crate::bed::stand_in::kubelet::runtime::{Mount, Spec};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};
use kube::{Api, ResourceExt};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a container is made from.
pub struct Making<'a> {
    pub context: &'a Context,
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub image: &'a Image,
    pub volumes: &'a Volumes,
    pub address: Ipv4Addr,
    /// The Pod's own folder.
    pub folder: &'a Path,
    /// The container's name and how often it was started.
    pub attempt: &'a str,
}

impl Making<'_> {
    /// Everything, the folders and files that it needs included.
    pub async fn spec(&self) -> Result<Spec, Problem> {
        let env = self.environment().await?;
        let pod = self.pod.spec.as_ref().and_then(|s| s.security_context.clone()).unwrap_or_default();
        let own = self.container.security_context.clone().unwrap_or_default();
        let uid = own.run_as_user.or(pod.run_as_user).unwrap_or(self.image.user);
        if own.run_as_non_root.or(pod.run_as_non_root) == Some(true) && uid == 0 {
            return Err(Problem::wait("container has runAsNonRoot and image will run as root"));
        }
        let mut groups = pod.supplemental_groups.unwrap_or_default();
        groups.extend(pod.fs_group);
        let root = self.folder.join("roots").join(self.attempt);
        self.make_root(&root).map_err(|e| Problem::wait(format!("make {}: {e}", root.display())))?;
        Ok(Spec {
            network: self.pod.uid().unwrap_or_default(),
            root,
            mounts: self.mounts()?,
            read_only_root: own.read_only_root_filesystem.unwrap_or_default(),
            hostname: hostname(self.pod),
            argv: self.argv(&env)?,
            env: env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
            dir: self.container.working_dir.clone().unwrap_or_else(|| "/".to_owned()),
            uid,
            gid: own.run_as_group.or(pod.run_as_group).unwrap_or(uid),
            groups,
            no_new_privs: own.allow_privilege_escalation == Some(false),
            log: self.context.log(&key(self.pod, self.container)),
        })
    }

    /// Where the container leaves its last words, on the host.
    pub fn termination_file(&self) -> PathBuf {
        self.folder.join("termination").join(self.attempt)
    }

    fn make_root(&self, root: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(root.join("tmp"))?;
        std::fs::set_permissions(root.join("tmp"), std::fs::Permissions::from_mode(0o1777))?;
        let file = self.termination_file();
        std::fs::create_dir_all(self.folder.join("termination"))?;
        std::fs::write(&file, "")?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666))
    }

    fn argv(&self, env: &BTreeMap<String, String>) -> Result<Vec<String>, Problem> {
        let command = match self.container.command.as_deref() {
            Some(command) if !command.is_empty() => command,
            _ => &self.image.entrypoint,
        };
        let argv: Vec<String> =
            command.iter().chain(self.container.args.iter().flatten()).map(|word| expand(word, env)).collect();
        if argv.is_empty() {
            return Err(Problem::wait("no command specified"));
        }
        Ok(argv)
    }

    fn mounts(&self) -> Result<Vec<Mount>, Problem> {
        let etc = |name: &str| Mount {
            from: self.folder.join("etc").join(name),
            to: Path::new("/etc").join(name),
            read_only: true,
        };
        let mut mounts: Vec<Mount> = self.image.mounts().collect();
        mounts.extend(ETC_FILES.iter().map(|name| etc(name)));
        let mut asked = self.container.volume_mounts.clone().unwrap_or_default();
        asked.sort_by_key(|mount| mount.mount_path.len());
        for mount in asked {
            let volume = self.volumes.folders.get(&mount.name);
            let volume = volume.ok_or_else(|| Problem::never(format!("there is no volume {}", mount.name)))?;
            let from = match mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
                Some(path) => volume.path.join(path),
                None => volume.path.clone(),
            };
            if !from.exists() {
                std::fs::create_dir_all(&from).map_err(|e| Problem::wait(format!("{}: {e}", from.display())))?;
            }
            let read_only = mount.read_only.unwrap_or_default() || volume.read_only;
            mounts.push(Mount { from, to: mount.mount_path.into(), read_only });
        }
        let words = self.container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
        mounts.push(Mount { from: self.termination_file(), to: words.into(), read_only: false });
        Ok(mounts)
    }

    async fn environment(&self) -> Result<BTreeMap<String, String>, Problem> {
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), PATH.to_owned()),
            ("HOSTNAME".to_owned(), hostname(self.pod)),
            ("HOME".to_owned(), "/".to_owned()),
        ]);
        if self.container.env_from.is_some() {
            return Err(Problem::never("the stand-in kubelet does not know envFrom"));
        }
        for variable in self.container.env.iter().flatten() {
            let value = match (&variable.value, &variable.value_from) {
                (Some(value), _) => Some(expand(value, &env)),
                (None, Some(source)) => self.value(source).await?,
                (None, None) => Some(String::new()),
            };
            if let Some(value) = value {
                env.insert(variable.name.clone(), value);
            }
        }
        Ok(env)
    }

    async fn value(&self, source: &EnvVarSource) -> Result<Option<String>, Problem> {
        let namespace = self.pod.namespace().unwrap_or_default();
        if let Some(field) = &source.field_ref {
            return self.field(&field.field_path).map(Some);
        }
        let (kind, name, key, optional, value) = if let Some(from) = &source.secret_key_ref {
            let api: Api<Secret> = Api::namespaced(self.context.client.clone(), &namespace);
            let found = api.get_opt(&from.name).await.map_err(Problem::wait)?;
            let value =
                found.and_then(|s| s.data?.remove(&from.key)).map(|v| String::from_utf8_lossy(&v.0).into_owned());
            ("Secret", &from.name, &from.key, from.optional, value)
        } else if let Some(from) = &source.config_map_key_ref {
            let api: Api<ConfigMap> = Api::namespaced(self.context.client.clone(), &namespace);
            let found = api.get_opt(&from.name).await.map_err(Problem::wait)?;
            ("ConfigMap", &from.name, &from.key, from.optional, found.and_then(|m| m.data?.remove(&from.key)))
        } else {
            return Err(Problem::never("the stand-in kubelet knows fieldRef, secretKeyRef and configMapKeyRef only"));
        };
        if value.is_none() && optional != Some(true) {
            return Err(Problem::wait(format!("{kind} {namespace}/{name} with key {key} does not exist")));
        }
        Ok(value)
    }

    fn field(&self, path: &str) -> Result<String, Problem> {
        let spec = self.pod.spec.as_ref();
        let quoted = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
        let value = match path {
            "metadata.name" => Some(self.pod.name_any()),
            "metadata.namespace" => self.pod.namespace(),
            "metadata.uid" => self.pod.uid(),
            "spec.nodeName" => spec.and_then(|s| s.node_name.clone()),
            "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()),
            "status.podIP" => Some(self.address.to_string()),
            "status.hostIP" => Some(self.context.runtime.address().to_string()),
            _ => {
                let label = quoted("metadata.labels").map(|key| self.pod.labels().get(key));
                let annotation = quoted("metadata.annotations").map(|key| self.pod.annotations().get(key));
                match label.or(annotation) {
                    Some(value) => Some(value.cloned().unwrap_or_default()),
                    None => return Err(Problem::never(format!("the stand-in kubelet does not know the field {path}"))),
                }
            }
        };
        Ok(value.unwrap_or_default())
    }
}

/// The files of /etc that every container sees.
pub const ETC_FILES: [&str; 6] = ["passwd", "group", "nsswitch.conf", "resolv.conf", "hosts", "hostname"];

/// Writes them for a Pod.
pub fn write_etc(pod: &Pod, folder: &Path, address: Ipv4Addr, server: Ipv4Addr) -> std::io::Result<()> {
    let namespace = pod.namespace().unwrap_or_default();
    let hostname = hostname(pod);
    let subdomain = pod.spec.as_ref().and_then(|s| s.subdomain.as_deref());
    let long = subdomain.map(|s| format!("{hostname}.{s}.{namespace}.svc.cluster.local\t")).unwrap_or_default();
    let domains = format!("{namespace}.svc.cluster.local svc.cluster.local cluster.local");
    let contents = [
        "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n".to_owned(),
        "root:x:0:\nnonroot:x:65532:\n".to_owned(),
        "hosts: files dns\n".to_owned(),
        format!("search {domains}\nnameserver {server}\noptions ndots:5\n"),
        format!("127.0.0.1\tlocalhost\n{address}\t{long}{hostname}\n"),
        format!("{hostname}\n"),
    ];
    let etc = folder.join("etc");
    std::fs::create_dir_all(&etc)?;
    ETC_FILES.iter().zip(contents).try_for_each(|(name, text)| std::fs::write(etc.join(name), text))
}

/// What a container is called in messages and by tests.
pub fn key(pod: &Pod, container: &Container) -> context::Container {
    context::Container {
        namespace: pod.namespace().unwrap_or_default(),
        pod: pod.name_any(),
        name: container.name.clone(),
    }
}

fn hostname(pod: &Pod) -> String {
    let given = pod.spec.as_ref().and_then(|s| s.hostname.clone());
    given.unwrap_or_else(|| pod.name_any().chars().take(63).collect())
}

/// Replaces `$(NAME)` where the name is known; `$$` is a dollar.
fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest.strip_prefix("$(").and_then(|r| r.split_once(')')).map(|(name, _)| name);
        if let Some((name, value)) = name.and_then(|name| Some((name, env.get(name)?))) {
            out.push_str(value);
            rest = &rest[name.len() + 3..];
        } else {
            out.push('$');
            rest = rest.strip_prefix("$$").unwrap_or(&rest[1..]);
        }
    }
    out + rest
}
