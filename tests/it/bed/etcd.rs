//! An etcd cluster as processes of this host, in any version that we support.

use super::fault_proxy::{HttpProxy, Protocol, Upstream};
use super::leash::Leash;
use super::pki::{Authority, PairFiles};
use super::ports::Port;
use super::tools::tool;
use super::wait_for;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_mins(1);

/// A version of etcd that the bed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 3.4.23, which has no etcdutl.
    V3_4,
    /// 3.5.35
    V3_5,
    /// 3.6.16
    V3_6,
    /// 3.7.3
    V3_7,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::V3_4, Self::V3_5, Self::V3_6, Self::V3_7];

    /// The full version, without a leading `v`.
    pub fn number(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4.23",
            Self::V3_5 => "3.5.35",
            Self::V3_6 => "3.6.16",
            Self::V3_7 => "3.7.3",
        }
    }

    fn minor(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4",
            Self::V3_5 => "3.5",
            Self::V3_6 => "3.6",
            Self::V3_7 => "3.7",
        }
    }

    /// The path of etcd.
    pub fn etcd(self) -> PathBuf {
        tool(&format!("etcd-{}", self.minor()))
    }

    /// The path of etcdctl.
    pub fn etcdctl(self) -> PathBuf {
        tool(&format!("etcdctl-{}", self.minor()))
    }

    /// The path of etcdutl, where the version has one.
    pub fn etcdutl(self) -> Option<PathBuf> {
        (self != Self::V3_4).then(|| tool(&format!("etcdutl-{}", self.minor())))
    }
}

/// How clients and servers trust each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Plain HTTP.
    #[default]
    Off,
    /// Servers show a certificate.
    Server,
    /// Clients must show one too.
    Mutual,
}

/// What is wanted beyond one member without TLS.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many members.
    pub members: usize,
    /// TLS between clients and servers; peers use mutual TLS whenever it is not off.
    pub tls: Tls,
    /// Turns authentication on, with this password for `root`.
    pub root_password: Option<String>,
    /// A data dir to serve in place of an empty one, as after a restore; for one member only.
    pub data_dir: Option<PathBuf>,
    /// More flags for every member.
    pub flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { members: 1, tls: Tls::Off, root_password: None, data_dir: None, flags: Vec::new() }
    }
}

/// An etcd cluster that lives as long as this value.
#[derive(Debug)]
pub struct Etcd {
    version: Version,
    options: Options,
    leash: Leash,
    members: Vec<Member>,
    certificates: Option<Certificates>,
}

#[derive(Debug)]
struct Member {
    name: String,
    data_dir: PathBuf,
    client: Port,
    peer: Port,
}

#[derive(Debug)]
struct Certificates {
    authority: PathBuf,
    server: PairFiles,
    client: PairFiles,
}

impl Etcd {
    /// Starts a cluster. When it returns, every member answers, and authentication is on if it was asked for.
    ///
    /// # Panics
    /// When a program is missing (the message says how to build it) or does not become ready.
    pub async fn start(version: Version, options: Options) -> Self {
        assert!(options.data_dir.is_none() || options.members == 1, "a given data dir is that of one member");
        let leash = Leash::new(&format!("etcd-{}", version.minor()));
        let members = (0..options.members)
            .map(|i| Member {
                name: format!("m{i}"),
                data_dir: options.data_dir.clone().unwrap_or_else(|| leash.folder().join(format!("m{i}"))),
                client: Port::take(),
                peer: Port::take(),
            })
            .collect();
        let certificates = (options.tls != Tls::Off).then(|| Certificates::make(&leash.folder().join("pki")));
        let this = Self { version, options, leash, members, certificates };
        for member in &this.members {
            this.leash.start(&member.name, &version.etcd(), &this.flags(member), &[]);
        }
        this.wait_ready().await;
        if let Some(password) = this.options.root_password.clone() {
            this.enable_auth(&password);
        }
        this
    }

    /// The version that runs.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The client URL of every member.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|m| self.url(m.client.number())).collect()
    }

    /// The client address of a member.
    pub fn address(&self, member: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.members[member].client.number()).into()
    }

    /// A proxy in front of a member. Where there is TLS, it shows the member the client certificate.
    pub fn behind_proxy(&self, member: usize, protocol: Protocol) -> HttpProxy {
        HttpProxy::start(Upstream {
            address: self.address(member),
            protocol,
            authority: self.authority().map(Path::to_owned),
            certificate: self.client_certificate().cloned(),
        })
    }

    /// The data dir of a member.
    pub fn data_dir(&self, member: usize) -> &Path {
        &self.members[member].data_dir
    }

    /// The authority that signed the servers' certificates, as a PEM file; with TLS only.
    pub fn authority(&self) -> Option<&Path> {
        self.certificates.as_ref().map(|c| c.authority.as_path())
    }

    /// A certificate that the servers accept from a client; with TLS only.
    pub fn client_certificate(&self) -> Option<&PairFiles> {
        self.certificates.as_ref().map(|c| &c.client)
    }

    /// The folder of this instance: free for the caller's own files, which go away with it.
    pub fn folder(&self) -> &Path {
        self.leash.folder()
    }

    /// The daemons, called `m0`, `m1` and so on, to kill and restart them.
    pub fn daemons(&self) -> &Leash {
        &self.leash
    }

    /// Runs the version's etcdctl against all members, as root where authentication is on, and gives its output.
    ///
    /// # Panics
    /// When it fails, with what it said.
    pub fn etcdctl(&self, arguments: &[&str]) -> String {
        self.try_etcdctl(arguments).unwrap_or_else(|e| panic!("etcdctl {}: {e}", arguments.join(" ")))
    }

    /// As [`Etcd::etcdctl`], giving a failure to the caller.
    pub fn try_etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.version.etcdctl());
        command.arg(format!("--endpoints={}", self.endpoints().join(","))).args(arguments);
        // The default of five seconds is too short for a machine that has much else to do.
        command.args(["--dial-timeout=10s", "--command-timeout=30s"]);
        if let Some(c) = &self.certificates {
            command.arg(format!("--cacert={}", c.authority.display()));
            command.arg(format!("--cert={}", c.client.certificate.display()));
            command.arg(format!("--key={}", c.client.key.display()));
        }
        if let Some(password) = &self.options.root_password {
            // Before authentication is on, this is not looked at.
            if self.authenticated() {
                command.arg(format!("--user=root:{password}"));
            }
        }
        let output = command.output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }

    /// Returns when every member answers a linearizable read.
    pub async fn wait_ready(&self) {
        let what = format!("etcd {} with {} members to answer", self.version.number(), self.members.len());
        wait_for(what, READY_WITHIN, async || {
            self.leash.check();
            self.try_etcdctl(&["endpoint", "health"])
        })
        .await;
    }

    fn authenticated(&self) -> bool {
        self.leash.folder().join("authenticated").exists()
    }

    fn enable_auth(&self, password: &str) {
        self.etcdctl(&["user", "add", &format!("root:{password}")]);
        if self.version == Version::V3_4 {
            self.etcdctl(&["role", "add", "root"]);
        }
        self.etcdctl(&["user", "grant-role", "root", "root"]);
        self.etcdctl(&["auth", "enable"]);
        std::fs::write(self.leash.folder().join("authenticated"), "").expect("mark authentication as on");
    }

    fn url(&self, port: u16) -> String {
        let scheme = if self.options.tls == Tls::Off { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{port}")
    }

    fn flags(&self, member: &Member) -> Vec<String> {
        let (client, peer) = (self.url(member.client.number()), self.url(member.peer.number()));
        let all: Vec<String> =
            self.members.iter().map(|m| format!("{}={}", m.name, self.url(m.peer.number()))).collect();
        let mut flags = vec![
            format!("--name={}", member.name),
            format!("--data-dir={}", member.data_dir.display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", all.join(",")),
            // The least that bcrypt takes: passwords of tests are no secrets.
            "--bcrypt-cost=4".to_owned(),
        ];
        if self.version != Version::V3_4 {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        if let Some(c) = &self.certificates {
            let (certificate, key) = (c.server.certificate.display(), c.server.key.display());
            flags.extend([
                format!("--cert-file={certificate}"),
                format!("--key-file={key}"),
                format!("--peer-cert-file={certificate}"),
                format!("--peer-key-file={key}"),
                format!("--peer-trusted-ca-file={}", c.authority.display()),
                "--peer-client-cert-auth".to_owned(),
            ]);
            if self.options.tls == Tls::Mutual {
                flags.push(format!("--trusted-ca-file={}", c.authority.display()));
                flags.push("--client-cert-auth".to_owned());
            }
        }
        flags.extend_from_slice(&self.options.flags);
        flags
    }
}

impl Certificates {
    fn make(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("create the folder of certificates");
        let authority = Authority::new("etcd-authority");
        Self {
            server: authority.issue("etcd", None, &["127.0.0.1", "localhost"]).write(folder, "server"),
            client: authority.issue("client", None, &[]).write(folder, "client"),
            authority: authority.write(&folder.join("ca.crt")),
        }
    }
}
