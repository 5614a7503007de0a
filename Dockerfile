# The image of etcd-warden, for those who build with a container daemon; `make image` makes the same without one.
FROM rust:1.95.0-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends protobuf-compiler && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The agent is copied into other people's images, so it is built small: without Kubernetes, HTTP server and CEL.
# What --version says: docker build --build-arg COMMIT=$(git rev-parse --short=12 HEAD)
ARG COMMIT=unknown
RUN ETCD_WARDEN_COMMIT=$COMMIT cargo build --release --locked --bin etcd-warden \
 && cargo build --release --locked --no-default-features --features agent --bin etcd-warden-agent --target-dir target/agent

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/target/x86_64-unknown-linux-gnu/release/etcd-warden /etcd-warden
COPY --from=build /src/target/agent/x86_64-unknown-linux-gnu/release/etcd-warden-agent /etcd-warden-agent
USER 65532:65532
ENTRYPOINT ["/etcd-warden"]
