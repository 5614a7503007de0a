//! Faults on requests of HTTP/1.1 and HTTP/2 (and so gRPC).

use super::rules::{On, RuleId, Rules};
use super::{Acceptor, Resetter};
use crate::bed::pki::{Authority, PairFiles};
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFault {
    /// It is forwarded this much later.
    Delay(Duration),
    /// The server never sees it; this is the answer: status and body.
    Answer(u16, String),
    /// With a header line (`name: value`) that contains this text it is answered by 501; without, it is forwarded.
    RefuseHeader(&'static str),
    /// The server never sees it, and the connection is reset.
    Reset,
    /// The server never sees it, and nobody ever answers.
    Hang,
    /// The server has answered, and the connection is reset before the client sees it: it cannot know what happened.
    LoseAnswer,
    /// The server has answered, and the client waits for that answer for ever.
    WithholdAnswer,
    /// The server gets it twice, one after the other, and the client the second answer: as when somebody on the way has
    /// lost the first one and asked again.
    Twice,
    /// The connection is reset when the server has sent this many bytes of the answer's body.
    CutAnswer(usize),
    /// The connection is reset when the client has sent this many bytes of the request's body.
    CutRequest(usize),
}

/// The version of HTTP that is spoken on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: API servers, S3.
    #[default]
    Http1,
    /// HTTP/2: gRPC.
    Http2,
}

/// The server behind a proxy.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its address.
    pub address: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The authority (a PEM file) that signed its certificate, for the name `localhost`; none: no TLS on either side.
    pub authority: Option<PathBuf>,
    /// The certificate to show it, where it wants one. Requests then come from this certificate's user.
    pub certificate: Option<PairFiles>,
}

/// Forwards requests to a server.
#[derive(Debug)]
pub struct HttpProxy {
    acceptor: Acceptor,
    rules: Arc<Rules<HttpFault>>,
    authority: String,
    tls: bool,
}

type Body = BoxBody<Bytes, BoxedError>;
type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl HttpProxy {
    /// A proxy for a server.
    pub fn start(upstream: Upstream) -> Self {
        let authority = Authority::new("fault-proxy-authority");
        let tls = upstream.authority.as_ref().map(|_| server_tls(&authority, upstream.protocol));
        let rules = Arc::new(Rules::new());
        let (passing, with_tls) = (Arc::clone(&rules), tls.is_some());
        let upstream = Arc::new(upstream);
        let acceptor = Acceptor::start(move |stream, stop| {
            let (tls, rules, upstream) = (tls.clone(), Arc::clone(&passing), Arc::clone(&upstream));
            async move {
                // A half-way served connection is dropped when the proxy ends.
                stop.run_until_cancelled(accept(stream, tls, rules, upstream)).await;
            }
        });
        Self { acceptor, rules, authority: authority.pem(), tls: with_tls }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address
    }

    /// The same as a URL without path.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address())
    }

    /// The authority that clients must trust, as PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    /// Writes the authority to a file.
    pub fn write_authority(&self, file: &Path) {
        std::fs::write(file, &self.authority).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
    }

    /// Adds a rule. The first rule that is about a request decides.
    pub fn inject(&self, on: On, fault: HttpFault) -> RuleId {
        self.rules.add(on, fault)
    }

    /// Removes a rule.
    pub fn remove(&self, rule: RuleId) {
        self.rules.remove(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules.clear();
    }

    /// Method and path with query of every request so far, oldest first, the faulty ones included.
    pub fn seen(&self) -> Vec<(String, String)> {
        self.rules.seen()
    }

    /// How many requests so far match (which of them is not looked at).
    pub fn count(&self, on: &On) -> usize {
        self.rules.count(on)
    }

    /// How often a rule was applied.
    pub fn applied(&self, rule: RuleId) -> usize {
        self.rules.applied(rule)
    }
}

async fn accept(stream: TcpStream, tls: Option<TlsAcceptor>, rules: Arc<Rules<HttpFault>>, upstream: Arc<Upstream>) {
    let resetter = Resetter::of(&stream);
    let protocol = upstream.protocol;
    let connection =
        Arc::new(Connection { rules, upstream, server: Mutex::new(None), reset: CancellationToken::new() });
    let reset = connection.reset.clone();
    let served = async {
        match tls {
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    serve(TokioIo::new(stream), protocol, connection).await;
                }
            }
            None => serve(TokioIo::new(stream), protocol, connection).await,
        }
    };
    // A half-way served connection is dropped on purpose: that is the fault.
    tokio::select! {
        biased;
        () = reset.cancelled() => resetter.arm(),
        () = served => {}
    }
}

async fn serve<I>(io: I, protocol: Protocol, connection: Arc<Connection>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let connection = Arc::clone(&connection);
        async move { connection.handle(request).await }
    });
    // How a connection ends is the client's business.
    let _ = match protocol {
        Protocol::Http1 => hyper::server::conn::http1::Builder::new().serve_connection(io, service).await,
        Protocol::Http2 => hyper::server::conn::http2::Builder::new(LocalExecutor).serve_connection(io, service).await,
    };
}

/// A client's connection, with the one to the server that belongs to it.
struct Connection {
    rules: Arc<Rules<HttpFault>>,
    upstream: Arc<Upstream>,
    server: Mutex<Option<Sender>>,
    reset: CancellationToken,
}

enum Sender {
    Http1(conn::http1::SendRequest<Body>),
    Http2(conn::http2::SendRequest<Body>),
}

impl Connection {
    async fn handle(&self, request: Request<Incoming>) -> Result<Response<Body>, BoxedError> {
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let fault = self.rules.pass(request.method().as_str(), &path);
        let (parts, body) = request.into_parts();
        let mut body: Body = body.map_err(Into::into).boxed();
        match &fault {
            Some(HttpFault::Delay(time)) => tokio::time::sleep(*time).await,
            Some(HttpFault::Answer(status, text)) => return answer(*status, text.clone()),
            Some(HttpFault::RefuseHeader(text)) if has_header(&parts.headers, text) => {
                return answer(501, "<Error><Code>NotImplemented</Code></Error>".to_owned());
            }
            Some(HttpFault::Reset) => return self.hang_up().await,
            Some(HttpFault::Hang) => std::future::pending().await,
            Some(HttpFault::CutRequest(bytes)) => body = self.cut(body, *bytes),
            Some(HttpFault::Twice) => match self.once_before(&parts, body).await {
                Ok(again) => body = again,
                Err(_) => return self.hang_up().await,
            },
            Some(
                HttpFault::LoseAnswer
                | HttpFault::WithholdAnswer
                | HttpFault::CutAnswer(_)
                | HttpFault::RefuseHeader(_),
            )
            | None => {}
        }
        let answer = match self.send(Request::from_parts(parts, body)).await {
            Ok(answer) => answer.map(|body| body.map_err(Into::into).boxed()),
            // The server is gone, or has closed a connection that was idle: so does this one.
            Err(_) => return self.hang_up().await,
        };
        match fault {
            Some(HttpFault::LoseAnswer) => {
                // The whole answer, so that the server has surely done its work; one that breaks off is lost all the same.
                let _ = answer.into_body().collect().await;
                self.hang_up().await
            }
            Some(HttpFault::WithholdAnswer) => {
                // As above; an answer that breaks off is withheld all the same.
                let _ = answer.into_body().collect().await;
                std::future::pending().await
            }
            Some(HttpFault::CutAnswer(bytes)) => Ok(answer.map(|body| self.cut(body, bytes))),
            _ => Ok(answer),
        }
    }

    /// Sends a request for the first time, waits for the whole answer, and gives the body for the second time.
    async fn once_before(&self, parts: &http::request::Parts, body: Body) -> Result<Body, BoxedError> {
        let bytes = body.collect().await?.to_bytes();
        let whole = || http_body_util::Full::new(bytes.clone()).map_err(|never| match never {}).boxed();
        self.send(Request::from_parts(parts.clone(), whole())).await?.into_body().collect().await?;
        Ok(whole())
    }

    async fn hang_up(&self) -> Result<Response<Body>, BoxedError> {
        self.reset.cancel();
        std::future::pending().await
    }

    /// A body that resets the connection when this many bytes have passed.
    fn cut(&self, body: Body, bytes: usize) -> Body {
        let (reset, mut left) = (self.reset.clone(), bytes);
        body.map_frame(move |frame| {
            frame.map_data(|mut data: Bytes| {
                if data.len() >= left {
                    data.truncate(left);
                    // After this piece is on its way to the other side.
                    let reset = reset.clone();
                    tokio::task::spawn_local(async move {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        reset.cancel();
                    });
                }
                left = left.saturating_sub(data.len());
                data
            })
        })
        .boxed()
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, BoxedError> {
        let mut server = self.server.lock().await;
        if server.is_none() {
            *server = Some(connect(&self.upstream).await?);
        }
        match server.as_mut().expect("a connection that was just made") {
            Sender::Http1(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Sender::Http2(sender) => {
                let mut sender = sender.clone();
                drop(server);
                *request.version_mut() = http::Version::HTTP_2;
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }
}

fn has_header(headers: &http::HeaderMap, text: &str) -> bool {
    headers.iter().any(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())).contains(text))
}

async fn connect(upstream: &Upstream) -> Result<Sender, BoxedError> {
    let stream = TcpStream::connect(upstream.address).await?;
    let Some(connector) = client_tls(upstream)? else {
        return handshake(TokioIo::new(stream), upstream.protocol).await;
    };
    let name = ServerName::try_from("localhost")?;
    handshake(TokioIo::new(connector.connect(name, stream).await?), upstream.protocol).await
}

async fn handshake<I>(io: I, protocol: Protocol) -> Result<Sender, BoxedError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    match protocol {
        Protocol::Http1 => {
            let (sender, connection) = conn::http1::handshake(io).await?;
            tokio::task::spawn_local(connection);
            Ok(Sender::Http1(sender))
        }
        Protocol::Http2 => {
            let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await?;
            tokio::task::spawn_local(connection);
            Ok(Sender::Http2(sender))
        }
    }
}

fn answer(status: u16, text: String) -> Result<Response<Body>, BoxedError> {
    let body = http_body_util::Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
    Ok(Response::builder().status(status).header("content-type", "application/json").body(body)?)
}

fn server_tls(authority: &Authority, protocol: Protocol) -> TlsAcceptor {
    let pair = authority.issue("fault-proxy", None, &["127.0.0.1", "localhost"]);
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
    // Clients may show a certificate, as they would to the server; it is not looked at.
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate with its key");
    config.alpn_protocols = vec![alpn(protocol)];
    TlsAcceptor::from(Arc::new(config))
}

fn client_tls(upstream: &Upstream) -> Result<Option<TlsConnector>, BoxedError> {
    let Some(authority) = &upstream.authority else { return Ok(None) };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    let mut config = match &upstream.certificate {
        Some(files) => config.with_client_auth_cert(
            vec![CertificateDer::from_pem_file(&files.certificate)?],
            PrivateKeyDer::from_pem_file(&files.key)?,
        )?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn(upstream.protocol)];
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

fn alpn(protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::Http1 => b"http/1.1".to_vec(),
        Protocol::Http2 => b"h2".to_vec(),
    }
}

/// Runs what a connection needs on the proxy's one thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor
where
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
