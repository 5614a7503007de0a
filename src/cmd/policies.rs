//! `etcd-warden policies`: what the rules are, whether cases come out as they say, and the rules for a cluster.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use thiserror::Error;

use crate::admission::policies::{self, ENDINGS};
use crate::checks::cases::{self, Expected, Outcome};
use crate::checks::{Kind, RULES, Rule};
use crate::policy::{Action, File, LoadError, PolicySet, Summary, load, yaml};
use crate::runtime::folder;

/// The guard as a native policy.
const GUARD: &str = include_str!("../../policies/guard/etcdcluster.yaml");

/// What to do with policies.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List every rule: its name, what it does, what it judges, and where it is written.
    List {
        /// Which policies.
        #[command(flatten)]
        from: From,
        /// How to list them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Listing,
    },
    /// Show one rule: a policy as it is written, any other in words.
    Show {
        /// Its name, as findings give it.
        name: String,
        /// Which policies.
        #[command(flatten)]
        from: From,
    },
    /// Judge cases, and say which do not come out as they say.
    Test {
        /// File or folder of cases; may be repeated.
        #[arg(required = true, value_name = "CASES")]
        cases: Vec<PathBuf>,
        /// Which policies.
        #[command(flatten)]
        from: From,
    },
    /// Print the policies as one manifest, for a cluster without etcd-warden: pipe it into kubectl apply -f -.
    Export {
        /// Which policies.
        #[command(flatten)]
        from: From,
        /// The guard, too; the definition of RestoreJob must be there before it and stay for as long.
        #[arg(long)]
        guard: bool,
    },
}

/// Which policies.
#[derive(Clone, Debug, Default, Args)]
pub struct From {
    /// Folder or file with policies besides those that come with the program; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub policy_dir: Vec<PathBuf>,
}

/// How to list rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Listing {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For the documentation.
    Markdown,
}

/// How it ended, if not well.
#[derive(Debug, Error)]
pub enum Error {
    /// A policy file is wrong.
    #[error("--policy-dir")]
    Policies(#[from] policies::Error),
    /// No rule of this name.
    #[error("there is no rule {0:?}; etcd-warden policies list names them all")]
    Unknown(String),
    /// Cases came out otherwise.
    #[error("{failed} of {all} cases do not come out as they say")]
    Cases {
        /// How many.
        failed: usize,
        /// Of how many.
        all: usize,
    },
    /// Cases could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Cases are not of a case's shape.
    #[error("{file}")]
    Malformed {
        /// The file.
        file: String,
        /// Where and what.
        source: yaml::Unreadable,
    },
    /// The output could not be written.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

impl Error {
    /// 1 for what was found, 2 when something could not be read or written.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown(_) | Self::Cases { .. } => 1,
            Self::Policies(_) | Self::Read { .. } | Self::Malformed { .. } | Self::Output(_) => 2,
        }
    }
}

impl From {
    /// Reads and compiles them.
    pub fn load(&self) -> Result<(Vec<File>, PolicySet), policies::Error> {
        let files = policies::read(&self.policy_dir)?;
        let set = load(&files).map_err(|errors: Vec<LoadError>| policies::Error::Load(errors))?;
        Ok((files, set))
    }
}

/// Does what was asked.
pub fn run(command: &Command) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match command {
        Command::List { from, output } => {
            let (_, set) = from.load()?;
            let text = match output {
                Listing::Text => listed(&set),
                Listing::Json => format!("{}\n", as_json(&set)),
                Listing::Markdown => markdown(&set),
            };
            out.write_all(text.as_bytes())?;
        }
        Command::Show { name, from } => {
            let (files, _) = from.load()?;
            out.write_all(shown(name, &files)?.as_bytes())?;
        }
        Command::Test { cases, from } => test(&mut out, cases, &from.load()?.1)?,
        Command::Export { from, guard } => {
            let (files, _) = from.load()?;
            let guard = guard.then_some(GUARD);
            let texts: Vec<&str> = files.iter().map(|file| file.text.as_str()).chain(guard).collect();
            for (at, text) in texts.into_iter().enumerate() {
                let between = if at == 0 { "" } else { "---\n" };
                let end = if text.ends_with('\n') { "" } else { "\n" };
                write!(out, "{between}{text}{end}")?;
            }
        }
    }
    Ok(())
}

fn id(policy: &Summary) -> &str {
    policy.name.strip_suffix(".etcd-warden.io").unwrap_or(&policy.name)
}

fn words(actions: &[Action]) -> Vec<String> {
    let mut words: Vec<String> = actions.iter().map(|action| format!("{action:?}")).collect();
    words.sort();
    words.dedup();
    words
}

fn actions(policy: &Summary) -> Vec<String> {
    words(&policy.bindings.iter().flat_map(|(_, actions)| actions.iter().copied()).collect::<Vec<_>>())
}

fn kinds(rule: &Rule) -> Vec<String> {
    rule.kinds.iter().map(|kind| format!("{}.{}", kind.plural(), kind.group())).collect()
}

fn listed(set: &PolicySet) -> String {
    let mut rows = vec![["NAME", "ACTION", "JUDGES", "WRITTEN IN"].map(ToOwned::to_owned)];
    rows.extend(set.summaries().iter().map(|policy| {
        let judges = policy.applies_to.join("; ");
        [id(policy).to_owned(), actions(policy).join(","), judges, policy.place.file.clone()]
    }));
    rows.extend(RULES.iter().map(|rule| {
        [rule.name.to_owned(), words(rule.actions).join(","), kinds(rule).join("; "), "the program".to_owned()]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (name, action, judges) = (width(0), width(1), width(2));
    let line = |[n, a, j, w]: &[String; 4]| format!("{n:name$}  {a:action$}  {j:judges$}  {w}\n");
    rows.iter().map(line).collect()
}

fn as_json(set: &PolicySet) -> Value {
    let portable = set.summaries().into_iter().map(|policy| {
        json!({"name": id(&policy), "actions": actions(&policy), "judges": policy.applies_to, "says": policy.messages,
            "source": policy.place.file, "document": policy.place.document})
    });
    let others = RULES.iter().map(
        |rule| json!({"name": rule.name, "actions": words(rule.actions), "judges": kinds(rule), "says": [rule.about]}),
    );
    json!({"policies": portable.chain(others).collect::<Vec<_>>()})
}

/// The page of the documentation.
#[must_use]
pub fn markdown(set: &PolicySet) -> String {
    let mut text = String::from(MARKDOWN);
    let summaries = set.summaries();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::WardenStrategy) {
        let title = if kind == Kind::Strategy { "Etcd strategy (in either group)" } else { kind.name() };
        let mut rows = Vec::new();
        for policy in &summaries {
            let resource = format!(" {}", kind.plural());
            let group = kind.group();
            if policy.applies_to.iter().any(|rule| rule.contains(&resource) && rule.contains(group)) {
                let file = policy.place.file.trim_start_matches("policies/");
                let says = policy.messages.iter().map(|message| cell(message)).collect::<Vec<_>>().join("<br>");
                let actions = actions(policy).join(", ");
                rows.push(format!("| `{}` | {actions} | {says} | [{file}](../policies/{file}) |\n", id(policy)));
            }
        }
        for rule in RULES.iter().filter(|rule| rule.kinds.contains(&kind)) {
            rows.push(format!(
                "| `{}` | {} | {} | webhook |\n",
                rule.name,
                words(rule.actions).join(", "),
                cell(rule.about)
            ));
        }
        let _ = write!(text, "\n## {title}\n\n| Rule | Does | About | Where |\n|---|---|---|---|\n{}", rows.concat());
    }
    text
}

const MARKDOWN: &str = "# Policies

<!-- Made by `make generate` from policies/ and src/checks. Do not edit. -->

Every rule that objects are held to, besides the schemas. What a rule is called stands at the end of each message, in
metrics and in logs. `Deny` refuses, `Warn` lets pass and tells; which of several applies is said in the column beside it.

Rules with a file are portable: ValidatingAdmissionPolicy documents that the webhook evaluates, and that work on a cluster
without it (`etcd-warden policies export | kubectl apply -f -`). The others need other objects, or more than CEL can say:
they are the webhook's, the command line's (`etcd-warden check`) and the controllers'. On UPDATE a finding counts only if
its field has changed or the old object did not have it; deleting, finalizers and status are never blocked.

Try a change before it is made: `etcd-warden check -f FILE --context FOLDER` says what admission would say, without a
cluster: an object is completed with its defaults first, as the API server does it, and each finding points at the line of
its field. What the definition itself refuses is called `definition`. `etcd-warden policies list|show|test|export` looks at
the rules themselves.

## Policies of your own

`--policy-dir FOLDER` (`serve`, `check`, `policies`) takes up more documents of the same kind: policies, bindings, and
ConfigMaps as their parameters. A server looks at its folders every two seconds; files with an error in them change
nothing, and log, `etcd_warden_policy_load_errors` and `etcd-warden policies list` say file, document and position.

- Bindings do what they say: `Deny` refuses, `Warn` warns, `Audit` writes an audit annotation.
- `paramKind` is a ConfigMap; a server reads those that bindings name from its cluster, and takes up their changes. Without
  a cluster they are taken from what is given with `--context`.
- A message begins with the path of the field that it is about: `spec.replicas: too many`. Several paths have commas between
  them.
- The language is the part of CEL on which the API server and our engine agree: no floating-point or unsigned numbers, no
  `type()`, no optional values; loops not within loops; patterns written out, without `\\d`, `\\w` and options. What else is
  used is refused when the file is read, by name. Ask `has()` before every field that may be absent.
- Cases show that a policy does what it should: `etcd-warden policies test CASES --policy-dir FOLDER`, in the form of
  those in [policies/cases](../policies/cases).

The guard is both: a rule of the webhook, and [a native policy](../policies/guard/etcdcluster.yaml) that the chart installs
and that holds with every replica dead.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('>', "&gt;")
}

fn shown(name: &str, files: &[File]) -> Result<String, Error> {
    if let Some(rule) = RULES.iter().find(|rule| rule.name == name) {
        let (does, judges) = (words(rule.actions).join(", "), kinds(rule).join(", "));
        return Ok(format!("{name}\n  does: {does}\n  judges: {judges}\n  about: {}\n", rule.about));
    }
    let mut shown = Vec::new();
    for file in files {
        for document in yaml::documents(&file.text) {
            let Ok(object) = document.read::<Value>() else { continue };
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let named = [text("/metadata/name"), text("/spec/policyName")];
            if named.iter().any(|full| *full == name || full.strip_suffix(".etcd-warden.io") == Some(name)) {
                shown.push(format!("# {}:{}\n{}\n", file.name, document.line, document.text.trim()));
            }
        }
    }
    if shown.is_empty() { Err(Error::Unknown(name.to_owned())) } else { Ok(shown.join("---\n")) }
}

fn test(out: &mut dyn Write, paths: &[PathBuf], set: &PolicySet) -> Result<(), Error> {
    let (mut all, mut failed) = (0, 0);
    for path in paths {
        let texts = folder::texts(path, &ENDINGS).map_err(|source| Error::Read { path: path.clone(), source })?;
        for (file, text) in texts {
            let cases = cases::read(&text).map_err(|source| Error::Malformed { file: file.clone(), source })?;
            for case in cases {
                all += 1;
                let why = match case.run(set) {
                    Outcome::Passed => continue,
                    Outcome::Failed { missing, unexpected } => {
                        let told = |what: &str, found: &[Expected]| -> String {
                            let line = |found: &Expected| {
                                format!("\n  {what}: {:?} by {} on {:?}", found.action, found.policy, found.field)
                            };
                            found.iter().map(line).collect()
                        };
                        format!("{}{}", told("not found", &missing), told("found", &unexpected))
                    }
                    Outcome::Unusable(why) => format!("\n  {why}"),
                };
                failed += 1;
                writeln!(out, "{file}: {}{why}", case.case)?;
            }
        }
    }
    writeln!(out, "{} of {all} cases come out as they say", all - failed)?;
    if failed > 0 { Err(Error::Cases { failed, all }) } else { Ok(()) }
}
