# Run `make help` for what there is. The work is in scripts: tests/run, tests/cluster/*, tests/lint.
SHELL := bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-unit test-control-plane test-process test-node crash-matrix bench-admission bench-agents bench-controllers bench-node lint deny generate build image clean

help: ## Says what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## The whole story on a throw-away node, narrated
	tests/cluster/demo

demo-down: ## Removes what the demo started
	tests/cluster/demo-down

test: lint ## Everything that CI runs: lint and all tests
	tests/run

test-unit: ## Tests of pure code and of the tree itself
	tests/run unit

test-control-plane: ## Tests against a real etcd and kube-apiserver
	tests/run control-plane

test-process: ## Tests of our programs as processes, against real etcd and S3
	tests/run process

test-node: ## Tests on a whole Kubernetes (needs root)
	tests/run node

bench-admission: ## The admission server beside a Go webhook and native policies, on one core
	tests/bench/admission

crash-matrix: ## Every fault at every write of a restore, a rollback and a member's start (hours; CI runs a sample)
	tests/cluster/tools/build control-plane process
	cargo test --test it crash_matrix::whole -- --ignored --nocapture --test-threads=1

bench-agents: ## The agent's speed and memory beside plain programs, with 100 MiB and 2 GiB (20 GB of disk)
	tests/bench/agents

bench-controllers: ## The controllers' memory, requests and reaction with 100 and 1,000 clusters
	tests/bench/controllers

bench-node: ## Times of clusters and snapshots on a node, beside upstream's (needs root)
	tests/bench/node

lint: ## Formatting, clippy, shellcheck
	tests/lint

deny: ## Licences, bans and sources of dependencies (builds cargo-deny first, which takes minutes)
	tests/cluster/tools/build deny
	$$(tests/cluster/tools/path cargo-deny) check bans licenses sources

generate: build ## Writes again what is made from code: the chart's CRDs
	tests/generate

build: ## Both programs, unoptimised
	cargo build --bin etcd-warden --bin etcd-warden-agent

image: ## The image of a release, as an OCI archive in target/images
	tests/cluster/tools/build node
	tests/cluster/images etcd-warden-release

clean: ## Removes what was built here (the tools' cache outside stays)
	cargo clean
