//! A real S3 server: SeaweedFS, over TLS under a private authority, as a process of this host.

use super::fault_proxy::{HttpProxy, Protocol, Upstream};
use super::leash::Leash;
use super::pki::Authority;
use super::ports::Port;
use super::tools::tool;
use super::{use_ring, wait_for};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody, HttpResponse, ReqwestConnector};
use object_store::{Certificate, ClientOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_mins(1);
/// The region that signatures are made for.
pub const REGION: &str = "us-east-1";
const PROBE_BUCKET: &str = "bed-probe";

const INNER_PORTS: [&str; 7] = [
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port.grpc",
];

/// What is wanted beyond TLS on loopback.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on; `0.0.0.0` where Pods are to reach it.
    pub listen: String,
    /// More DNS names and IP addresses for the certificate, besides 127.0.0.1 and localhost.
    pub names: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: "127.0.0.1".to_owned(), names: Vec::new() }
    }
}

/// Keys of a user of the S3 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The access key ID.
    pub access: &'static str,
    /// The secret access key.
    pub secret: &'static str,
}

/// May do everything.
pub const OWNER: Keys = Keys { access: "bedowner", secret: "bed-owner-secret" };
/// May read and list, not write.
pub const READER: Keys = Keys { access: "bedreader", secret: "bed-reader-secret" };

/// Below this name every bucket has a host name of its own. It leads to loopback, and the certificate holds the buckets'
/// names but not this one: paths below it do not work.
const DOMAIN: &str = "s3.localhost";

/// Keys that are good for an hour, and only together with their token.
#[derive(Clone, Debug)]
pub struct TemporaryKeys {
    /// The access key ID.
    pub access: String,
    /// The secret access key.
    pub secret: String,
    /// The session token.
    pub token: String,
}

/// An S3 server that lives as long as this value.
#[derive(Debug)]
pub struct S3Server {
    leash: Leash,
    https: Port,
    http: Port,
    _inner: Vec<Port>,
    authority: PathBuf,
}

impl S3Server {
    /// Starts one for the caller. When it returns, it takes objects.
    ///
    /// # Panics
    /// When the program is missing (the message says how to build it) or does not become ready.
    pub async fn start(options: Options) -> Self {
        use_ring();
        let (https, http) = (Port::take(), Port::take());
        let inner: Vec<Port> = (0..INNER_PORTS.len()).map(|_| Port::take()).collect();
        let leash = Leash::with_last_act("s3", &remove_sockets(&inner));
        let folder = leash.folder().to_owned();
        let authority = Authority::new("s3-authority");
        let buckets = format!("*.{DOMAIN}");
        let mut names = vec!["127.0.0.1", "localhost", &buckets];
        names.extend(options.names.iter().map(String::as_str));
        let server = authority.issue("s3", None, &names).write(&folder, "server");
        let config = folder.join("identities.json");
        std::fs::write(&config, identities()).expect("write the identities");
        let sessions = folder.join("sessions.json");
        std::fs::write(&sessions, temporary_credentials()).expect("write how temporary credentials are signed");
        std::fs::create_dir_all(folder.join("data")).expect("create the data folder");

        let mut flags: Vec<String> = [
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
            "-master.volumeSizeLimitMB=64",
            "-master.telemetry=false",
            "-volume.max=2000",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]
        .map(str::to_owned)
        .to_vec();
        flags.extend([
            format!("-dir={}", folder.join("data").display()),
            format!("-s3.ip.bind={}", options.listen),
            format!("-s3.port={}", http.number()),
            format!("-s3.port.https={}", https.number()),
            format!("-s3.cert.file={}", server.certificate.display()),
            format!("-s3.key.file={}", server.key.display()),
            format!("-s3.config={}", config.display()),
            format!("-s3.iam.config={}", sessions.display()),
            format!("-s3.domainName={DOMAIN}"),
            format!("-s3.localSocket={}", folder.join("s3.sock").display()),
            format!("-filer.localSocket={}", folder.join("filer.sock").display()),
        ]);
        flags.extend(INNER_PORTS.iter().zip(&inner).map(|(kind, port)| format!("-{kind}={}", port.number())));
        leash.start("weed", &tool("weed"), &flags, &[]);

        let authority = authority.write(&folder.join("ca.crt"));
        let this = Self { leash, https, http, _inner: inner, authority };
        this.wait_ready().await;
        this
    }

    /// The one that tests of this process share; give every test a bucket of its own.
    pub async fn shared() -> &'static Self {
        static SHARED: tokio::sync::OnceCell<S3Server> = tokio::sync::OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(Options::default())).await
    }

    /// The address over TLS.
    pub fn endpoint(&self) -> String {
        self.endpoint_at("127.0.0.1")
    }

    /// The address over TLS under another name of this host.
    pub fn endpoint_at(&self, host: &str) -> String {
        format!("https://{host}:{}", self.https.number())
    }

    /// The address without TLS, over which everything can be reached as well.
    pub fn plain_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.http.number())
    }

    /// The address over TLS, for a `TcpProxy`.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.https.number()).into()
    }

    /// A proxy in front of the server. Signatures stay valid: the request's Host header is passed on.
    pub fn behind_proxy(&self) -> HttpProxy {
        HttpProxy::start(Upstream {
            address: self.address(),
            protocol: Protocol::Http1,
            authority: Some(self.authority.clone()),
            certificate: None,
        })
    }

    /// The authority that signed the server's certificate, as a PEM file.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// The same as text.
    pub fn authority_pem(&self) -> String {
        std::fs::read_to_string(&self.authority).expect("the authority's certificate")
    }

    /// The daemon, called `weed`, to kill and restart it.
    pub fn daemons(&self) -> &Leash {
        &self.leash
    }

    /// Creates a bucket (one that exists is fine) and gives a client for it as the owner, for setting up and checking.
    pub async fn bucket(&self, name: &str) -> Arc<dyn ObjectStore> {
        let status = self.create_bucket(name).await.unwrap_or_else(|e| panic!("create bucket {name}: {e}"));
        assert!(status == 200 || status == 409, "create bucket {name}: status {status}");
        self.store(name)
    }

    /// A client for a bucket as the owner.
    pub fn store(&self, bucket: &str) -> Arc<dyn ObjectStore> {
        store_through(bucket, &self.endpoint(), &self.authority_pem())
    }

    /// The address over TLS under which each bucket is a host of its own.
    pub fn virtual_host_endpoint(&self) -> String {
        self.endpoint_at(DOMAIN)
    }

    /// Temporary credentials with all rights of the owner.
    pub async fn temporary_keys(&self) -> TemporaryKeys {
        let question = "Action=AssumeRole&Version=2011-06-15&RoleSessionName=test";
        let request = http::Request::post(self.endpoint())
            .header("content-type", "application/x-www-form-urlencoded")
            .body(HttpRequestBody::from(question.to_owned()))
            .expect("a request");
        let answer = self.ask("sts", request).await.expect("temporary credentials");
        let body: Vec<Bytes> = answer.into_body().bytes_stream().try_collect().await.expect("temporary credentials");
        let text = String::from_utf8(body.concat()).expect("temporary credentials");
        let element = |name: &str| {
            let rest = text.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once("</"));
            rest.unwrap_or_else(|| panic!("no {name} in {text}")).0.to_owned()
        };
        TemporaryKeys {
            access: element("AccessKeyId"),
            secret: element("SecretAccessKey"),
            token: element("SessionToken"),
        }
    }

    /// Returns when objects can be written and read.
    pub async fn wait_ready(&self) {
        wait_for("the S3 server to take an object", READY_WITHIN, async || {
            self.leash.check();
            match self.create_bucket(PROBE_BUCKET).await? {
                200 | 409 => {}
                status => return Err(format!("creating a bucket gave status {status}")),
            }
            let put = self.store(PROBE_BUCKET);
            let path = object_store::path::Path::from("probe");
            object_store::ObjectStoreExt::put(&put, &path, "x".into()).await.map_err(|e| e.to_string())
        })
        .await;
    }

    async fn create_bucket(&self, name: &str) -> Result<u16, String> {
        let request = http::Request::put(format!("{}/{name}", self.endpoint()))
            .body(HttpRequestBody::empty())
            .map_err(|e| e.to_string())?;
        Ok(self.ask("s3", request).await?.status().as_u16())
    }

    /// Sends a request, signed by the owner for this service.
    async fn ask(&self, service: &str, mut request: HttpRequest) -> Result<HttpResponse, String> {
        let client: HttpClient =
            ReqwestConnector::default().connect(&client_options(&self.authority_pem())).map_err(|e| e.to_string())?;
        let keys = AwsCredential { key_id: OWNER.access.to_owned(), secret_key: OWNER.secret.to_owned(), token: None };
        AwsAuthorizer::new(&keys, service, REGION).try_authorize(&mut request, None).map_err(|e| e.to_string())?;
        client.execute(request).await.map_err(|e| format!("{e:?}"))
    }
}

/// A client for a bucket as the owner, by a way that leads through `url`, whose certificate this authority signed.
pub fn store_through(bucket: &str, url: &str, authority: &str) -> Arc<dyn ObjectStore> {
    let store = AmazonS3Builder::new()
        .with_endpoint(url)
        .with_region(REGION)
        .with_bucket_name(bucket)
        .with_access_key_id(OWNER.access)
        .with_secret_access_key(OWNER.secret)
        .with_client_options(client_options(authority))
        .build()
        .expect("an S3 client");
    Arc::new(store)
}

fn client_options(authority: &str) -> ClientOptions {
    let authority = Certificate::from_pem(authority.as_bytes()).expect("a PEM certificate");
    ClientOptions::new().with_root_certificate(authority).with_allow_http(true)
}

/// SeaweedFS also listens on sockets whose place cannot be chosen; killed, it leaves them behind.
fn remove_sockets(ports: &[Port]) -> String {
    let sockets: Vec<String> =
        ports.iter().map(|port| format!("/tmp/seaweedfs-*-grpc-{}.sock", port.number())).collect();
    format!("rm -f {}", sockets.join(" "))
}

/// Temporary credentials inherit what their owner may; who has none stays without rights.
fn temporary_credentials() -> String {
    let signing = serde_json::json!({
        "tokenDuration": "1h",
        "maxSessionLength": "12h",
        "issuer": "bed",
        "signingKey": "YmVkLXNpZ25pbmcta2V5LW9mLTMyLWJ5dGVzLWxvbmch",
    });
    serde_json::json!({"sts": signing, "policy": {"defaultEffect": "Deny", "storeType": "memory"}}).to_string()
}

fn identities() -> String {
    let user = |name: &str, keys: &Keys, actions: &[&str]| {
        serde_json::json!({
            "name": name,
            "credentials": [{"accessKey": keys.access, "secretKey": keys.secret}],
            "actions": actions,
        })
    };
    let owner = user("owner", &OWNER, &["Admin", "Read", "Write", "List", "Tagging"]);
    serde_json::json!({"identities": [owner, user("reader", &READER, &["Read", "List"])]}).to_string()
}
