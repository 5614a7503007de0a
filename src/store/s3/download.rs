//! A stream out of a bucket that goes on where a connection broke.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::{GetOptions, ObjectStore};

use super::super::{Error, Head};
use super::S3Object;

/// How often in a row the stream is opened again without a byte having come.
const FRUITLESS: u32 = 6;

/// A stream out of a bucket.
pub struct S3Download {
    object: S3Object,
    version: Option<String>,
    size: u64,
    received: u64,
    fruitless: u32,
    body: Option<BoxStream<'static, object_store::Result<Bytes>>>,
}

impl std::fmt::Debug for S3Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Download")
            .field("object", &self.object)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl S3Download {
    pub(in super::super) fn begin(object: &S3Object, head: &Head) -> Self {
        Self {
            object: object.clone(),
            version: head.version.clone(),
            size: head.size,
            received: 0,
            fruitless: 0,
            body: None,
        }
    }

    pub(in super::super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.received == self.size {
                return Ok(None);
            }
            if self.body.is_none() {
                self.open().await?;
            }
            let piece = match &mut self.body {
                Some(body) => body.next().await,
                None => None,
            };
            match piece {
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(Ok(bytes)) => {
                    self.received += bytes.len() as u64;
                    self.fruitless = 0;
                    return Ok(Some(bytes));
                }
                Some(Err(error)) => self.broke(Some(&error)).await?,
                None => self.broke(None).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let mut options = GetOptions::new().with_range(Some(self.received..self.size));
        options.if_match.clone_from(&self.version);
        match self.object.client.get_opts(&self.object.path, options).await {
            Ok(found)
                if found.meta.size != self.size || differs(self.version.as_deref(), found.meta.e_tag.as_deref()) =>
            {
                Err(Error::Changed { uri: self.object.uri().to_string() })
            }
            Ok(found) => {
                self.body = Some(found.into_stream());
                Ok(())
            }
            Err(error) => Err(self.object.explain("read", &error)),
        }
    }

    /// A broken body is opened again from the byte it broke at, with a pause that grows while nothing comes.
    async fn broke(&mut self, error: Option<&object_store::Error>) -> Result<(), Error> {
        self.body = None;
        self.fruitless += 1;
        let late = self.object.deadline.is_some_and(|deadline| deadline <= Instant::now());
        if self.fruitless > FRUITLESS || late {
            return Err(match error {
                Some(error) => self.object.explain("read", error),
                None => Error::Changed { uri: self.object.uri().to_string() },
            });
        }
        tracing::info!(at = self.received, of = self.size, "the download broke off and goes on from there");
        tokio::time::sleep(Duration::from_millis(100) * 2u32.pow(self.fruitless)).await;
        Ok(())
    }
}

fn differs(wanted: Option<&str>, found: Option<&str>) -> bool {
    matches!((wanted, found), (Some(wanted), Some(found)) if wanted != found)
}
