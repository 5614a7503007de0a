//! One connection to one member, and the calls that we make over it.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::sync::RwLock;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::error::{Error, chain};
use super::wire::{AuthenticateRequest, AuthenticateResponse};
use crate::api::secret::Secret;
use crate::net::{self, Fault, Resolver, TlsMaterial, fault_of};

/// Largest answer that is accepted, in bytes: a page of keys, never a snapshot, which comes in small pieces.
const MAX_ANSWER: usize = 64 << 20;

const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// User name and password for etcd's own authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User name.
    pub user: String,
    /// Password.
    pub password: Secret,
}

/// How to dial.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// For `https://` endpoints; without it the system's authorities are trusted.
    pub tls: Option<TlsMaterial>,
    /// For clusters with authentication on. A cluster that has it off is talked to without.
    pub credentials: Option<Credentials>,
    /// How long a connection may take to come about; 10 s where absent.
    pub connect_timeout: Option<Duration>,
    /// How long an answer may take; 10 s where absent.
    pub call_timeout: Option<Duration>,
}

/// A connection to one member. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Arc<str>,
    channel: Channel,
    credentials: Option<Credentials>,
    token: Arc<RwLock<Option<MetadataValue<Ascii>>>>,
    call_timeout: Duration,
}

/// Connects to the first of the endpoints (`http://HOST:PORT` or `https://HOST:PORT`, tried in order) that accepts a
/// connection, and logs in where credentials are given. A client talks to that one member only: to compare members,
/// dial each.
///
/// # Errors
/// What the last endpoint answered; for one endpoint simply why it failed.
///
/// ```no_run
/// # async fn example() -> Result<(), etcd_warden::etcd::Error> {
/// use etcd_warden::etcd::{self, Options};
/// let client = etcd::dial(&["http://127.0.0.1:2379".to_owned()], &Options::default()).await?;
/// let status = client.status().await?;
/// for member in client.member_list(true).await? {
///     println!("{:016x} {} learner={}", member.id, member.name, member.is_learner);
/// }
/// # let _ = status; Ok(()) }
/// ```
pub async fn dial(endpoints: &[String], options: &Options) -> Result<Client, Error> {
    let mut last = Error::NoEndpoint;
    for endpoint in endpoints {
        match dial_one(endpoint, options).await {
            Ok(client) => return Ok(client),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn dial_one(endpoint: &str, options: &Options) -> Result<Client, Error> {
    let invalid = || Error::Endpoint { endpoint: endpoint.to_owned() };
    let uri: Uri = endpoint.parse().map_err(|_| invalid())?;
    let host = uri.host().ok_or_else(invalid)?.to_owned();
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(invalid()),
    };
    let port = uri.port_u16().unwrap_or(2379);
    let within = options.connect_timeout.unwrap_or(Duration::from_secs(10));
    let unreachable = |fault, source| Error::Unreachable { endpoint: endpoint.to_owned(), fault, source };
    let resolver = Resolver::from_system().map_err(|error| unreachable(Fault::Dns, error.into()))?;
    let tls = if secure {
        let material = options.tls.clone().unwrap_or(TlsMaterial {
            roots: net::Roots::System(None),
            identity: None,
            server_name: None,
        });
        let config = net::client_config(&material, &["h2"])
            .map_err(|source| Error::Material { endpoint: endpoint.to_owned(), source })?;
        Some((Arc::new(config), material.server_name.unwrap_or_else(|| host.clone())))
    } else {
        None
    };
    let connector = tower::service_fn(move |_: Uri| {
        let (resolver, host, tls) = (resolver.clone(), host.clone(), tls.clone());
        async move {
            let tls = tls.as_ref().map(|(config, name)| (Arc::clone(config), name.as_str()));
            net::connect(&resolver, &host, port, tls, within).await.map(TokioIo::new)
        }
    });
    let channel = Endpoint::from(uri)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(2 << 20)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(20))
        .connect_with_connector(connector)
        .await
        .map_err(|error| unreachable(fault_of(&error).unwrap_or(Fault::Connect), chain(&error).into()))?;
    let client = Client {
        endpoint: endpoint.into(),
        channel,
        credentials: options.credentials.clone(),
        token: Arc::new(RwLock::new(None)),
        call_timeout: options.call_timeout.unwrap_or(Duration::from_secs(10)),
    };
    client.login().await?;
    Ok(client)
}

impl Client {
    /// The endpoint that was dialled.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Calls a method that answers once; `method` is the full gRPC path. A token that ran out is renewed once.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn call<Q, A>(&self, method: &'static str, question: Q) -> Result<A, Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        match self.call_once(method, question.clone()).await {
            Err(Error::Refused { code: Code::Unauthenticated, .. }) if self.credentials.is_some() => {
                self.login().await?;
                self.call_once(method, question).await
            }
            answer => answer,
        }
    }

    async fn call_once<Q, A>(&self, method: &'static str, question: Q) -> Result<A, Error>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = self.request(question).await;
        let answer = async {
            let mut grpc = self.grpc().await?;
            grpc.unary(request, PathAndQuery::from_static(method), ProstCodec::<Q, A>::default()).await
        };
        match tokio::time::timeout(self.call_timeout, answer).await {
            Ok(answer) => {
                answer.map(Response::into_inner).map_err(|status| Error::from_status(&self.endpoint, method, &status))
            }
            Err(_) => Err(Error::Timeout { endpoint: self.endpoint.to_string(), method, after: self.call_timeout }),
        }
    }

    /// Calls a method that answers with a stream.
    pub(super) async fn call_streaming<Q, A>(
        &self,
        method: &'static str,
        question: Q,
    ) -> Result<tonic::Streaming<A>, Error>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = self.request(question).await;
        let answer = async {
            let mut grpc = self.grpc().await?;
            grpc.server_streaming(request, PathAndQuery::from_static(method), ProstCodec::<Q, A>::default()).await
        };
        match tokio::time::timeout(self.call_timeout, answer).await {
            Ok(answer) => {
                answer.map(Response::into_inner).map_err(|status| Error::from_status(&self.endpoint, method, &status))
            }
            Err(_) => Err(Error::Timeout { endpoint: self.endpoint.to_string(), method, after: self.call_timeout }),
        }
    }

    async fn grpc(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }

    async fn request<Q>(&self, question: Q) -> Request<Q> {
        let mut request = Request::new(question);
        if let Some(token) = self.token.read().await.as_ref() {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// Whether authentication is on, asked in the one way that every version answers without being logged in: by the
    /// code with which a login is refused.
    ///
    /// # Errors
    /// The member cannot be asked.
    pub async fn auth_is_on(&self) -> Result<bool, Error> {
        let question = AuthenticateRequest { name: "root".into(), password: String::new() };
        match self.call_once::<_, AuthenticateResponse>(AUTHENTICATE, question).await {
            Err(Error::Refused { code: Code::FailedPrecondition, .. }) => Ok(false),
            Ok(_) | Err(Error::Refused { code: Code::InvalidArgument | Code::Unauthenticated, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Exchanges the password for a token. A cluster with authentication off says so by code, and needs none.
    async fn login(&self) -> Result<(), Error> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        *self.token.write().await = None;
        let question =
            AuthenticateRequest { name: credentials.user.clone(), password: credentials.password.expose().to_owned() };
        match self.call_once::<_, AuthenticateResponse>(AUTHENTICATE, question).await {
            Ok(answer) => {
                *self.token.write().await = MetadataValue::try_from(answer.token).ok();
                Ok(())
            }
            Err(Error::Refused { code: Code::FailedPrecondition, .. }) => Ok(()),
            // Wrong user or password: etcd calls it an invalid argument.
            Err(Error::Refused { endpoint, method, code: Code::InvalidArgument, message }) => {
                Err(Error::Refused { endpoint, method, code: Code::Unauthenticated, message })
            }
            Err(error) => Err(error),
        }
    }
}
