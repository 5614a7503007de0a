//! A stream into a bucket: one request while it is short, a multipart upload with bounded memory otherwise.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use object_store::{Attribute, Attributes, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload};

use super::super::wire::Condition;
use super::super::{ATTEMPT, Error, Head, OWNER, Ownership};
use super::S3Object;

/// What memory is planned with. S3 takes parts from 5 MiB on; fewer and larger ones cost a server less.
const PART: u64 = 8 << 20;

/// Most parts that S3 takes, less some for a database that grows meanwhile.
const PARTS: u64 = 9_000;

/// Parts in memory at a time: all but one of them on their way, while that one is filled.
const IN_FLIGHT: usize = 5;

/// How long parts that are on their way are waited for when the upload is taken back, and how long that may take.
const DRAIN: Duration = Duration::from_secs(5);
const WITHDRAWAL: Duration = Duration::from_secs(12);

/// Each gives back its part, so that the memory is used again.
type Sending = FuturesUnordered<BoxFuture<'static, (object_store::Result<()>, Bytes)>>;

/// A stream into a bucket.
pub struct S3Upload {
    object: S3Object,
    attributes: Attributes,
    owner: String,
    attempt: String,
    part_size: usize,
    buffer: BytesMut,
    spare: Vec<BytesMut>,
    multipart: Option<Box<dyn MultipartUpload>>,
    sending: Sending,
    sent: u64,
}

impl std::fmt::Debug for S3Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Upload").field("object", &self.object).field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl S3Upload {
    pub(in super::super) async fn begin(
        object: &S3Object,
        ownership: &Ownership,
        expected_size: u64,
    ) -> Result<Self, Error> {
        let condition = match object.head().await {
            // Without the right to list, a free name looks forbidden: the condition then decides, in the store.
            Ok(None) | Err(Error::Permission { .. }) => Condition::Free,
            Ok(Some(head)) if head.owner.as_deref() == Some(&ownership.uid) => {
                head.version.map_or(Condition::Always, Condition::Unchanged)
            }
            Ok(Some(head)) => return Err(Error::Taken { uri: object.uri().to_string(), owner: head.owner }),
            Err(error) => return Err(error),
        };
        object.wire.require(condition);
        let mut attributes = Attributes::new();
        let mut add = |name: &str, value: &str| {
            attributes.insert(Attribute::Metadata(name.to_owned().into()), value.to_owned().into());
        };
        add(OWNER, &ownership.uid);
        add(ATTEMPT, &ownership.attempt);
        for (name, value) in &ownership.details {
            add(name, value);
        }
        let part_size = usize::try_from(PART.max(expected_size.div_ceil(PARTS))).unwrap_or(usize::MAX);
        Ok(Self {
            object: object.clone(),
            attributes,
            owner: ownership.uid.clone(),
            attempt: ownership.attempt.clone(),
            part_size,
            buffer: BytesMut::new(),
            spare: Vec::new(),
            multipart: None,
            sending: FuturesUnordered::new(),
            sent: 0,
        })
    }

    pub(in super::super) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.buffer.capacity() == 0 {
                self.buffer = self.spare.pop().unwrap_or_else(|| BytesMut::with_capacity(self.part_size));
            }
            let room = self.part_size - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == self.part_size {
                let part = std::mem::take(&mut self.buffer).freeze();
                self.send_part(part).await?;
            }
        }
        Ok(())
    }

    async fn send_part(&mut self, part: Bytes) -> Result<(), Error> {
        if self.multipart.is_none() {
            let options = PutMultipartOptions { attributes: self.attributes.clone(), ..Default::default() };
            let upload = self.object.client.put_multipart_opts(&self.object.path, options).await;
            self.multipart = Some(upload.map_err(|error| self.object.explain("write", &error))?);
        }
        self.sent += part.len() as u64;
        if let Some(upload) = &mut self.multipart {
            // Spawned, so that parts move while the next one is being filled.
            let sending = tokio::spawn(upload.put_part(PutPayload::from_bytes(part.clone())));
            self.sending.push(Box::pin(async move {
                let sent = sending.await.unwrap_or_else(|error| Err(object_store::Error::JoinError { source: error }));
                (sent, part)
            }));
        }
        while self.sending.len() >= IN_FLIGHT {
            self.one_sent().await?;
        }
        Ok(())
    }

    async fn one_sent(&mut self) -> Result<(), Error> {
        match self.sending.next().await {
            Some((Err(error), _)) => Err(self.object.explain("write", &error)),
            Some((Ok(()), part)) => {
                // Taken anew for each part, hundreds of them would leave a heap in pieces behind.
                if let Ok(mut spare) = part.try_into_mut() {
                    spare.clear();
                    self.spare.push(spare);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(in super::super) async fn finish(mut self) -> Result<Head, Error> {
        match self.make_visible().await {
            Ok(()) => self.read_back().await,
            // The answer may have been lost after the store did it, or a repeated request met its own first one: what
            // is there now decides.
            Err(error) => match self.object.head().await {
                Ok(Some(head)) if self.is_ours(&head) => Ok(head),
                Ok(Some(head)) if matches!(error, Error::Changed { .. }) => {
                    let (uri, owner) = (self.object.uri().to_string(), head.owner);
                    let theirs = owner.as_deref() != Some(&self.owner);
                    self.abort().await;
                    Err(if theirs { Error::Taken { uri, owner } } else { error })
                }
                _ => {
                    self.abort().await;
                    Err(error)
                }
            },
        }
    }

    async fn make_visible(&mut self) -> Result<(), Error> {
        let last = std::mem::take(&mut self.buffer).freeze();
        if self.multipart.is_none() {
            self.sent += last.len() as u64;
            let options = PutOptions { attributes: self.attributes.clone(), ..Default::default() };
            let put = self.object.client.put_opts(&self.object.path, PutPayload::from_bytes(last), options).await;
            return put.map(drop).map_err(|error| self.object.explain("write", &error));
        }
        if !last.is_empty() {
            self.send_part(last).await?;
        }
        while !self.sending.is_empty() {
            self.one_sent().await?;
        }
        match &mut self.multipart {
            Some(upload) => upload.complete().await.map(drop).map_err(|error| self.object.explain("write", &error)),
            None => Ok(()),
        }
    }

    fn is_ours(&self, head: &Head) -> bool {
        head.attempt.as_deref() == Some(&self.attempt) && head.size == self.sent
    }

    async fn read_back(&mut self) -> Result<Head, Error> {
        let uri = || self.object.uri().to_string();
        let head = match self.object.head().await {
            Ok(Some(head)) => head,
            Ok(None) => return Err(Error::Changed { uri: uri() }),
            Err(error) => return Err(error),
        };
        if head.attempt.as_deref() != Some(&self.attempt) {
            return Err(Error::Changed { uri: uri() });
        }
        if head.size != self.sent {
            return Err(Error::Mismatch { uri: uri(), sent: self.sent, found: head.size });
        }
        Ok(head)
    }

    pub(in super::super) async fn abort(mut self) {
        // Parts still on their way would outlive the abort and be stored, and paid for, without an upload. One that
        // hangs is not waited for: whoever was told to stop has little time.
        let _ = tokio::time::timeout(DRAIN, async { while self.sending.next().await.is_some() {} }).await;
        let Some(mut upload) = self.multipart.take() else { return };
        match tokio::time::timeout(WITHDRAWAL, upload.abort()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = self.object.explain("abort the upload of", &error);
                tracing::warn!(%error, "an unfinished upload could not be removed from the store");
            }
            Err(_) => tracing::warn!("an unfinished upload could not be removed from the store in time"),
        }
    }
}
