//! Telling a story again and again.
#![allow(clippy::print_stdout, reason = "a matrix says what it did")]

use super::injection::{Fault, Injection, writes};
use super::scene::Scene;
use super::story::{NoEnd, Story};
use crate::bed::fault_proxy::RuleId;
use futures::StreamExt;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a story may take, however it is disturbed.
const WITHIN: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(50);
/// An end that is reached must still be one after this time.
const SETTLED: Duration = Duration::from_millis(500);

/// A story, and what may happen to its writes.
pub struct Matrix<S> {
    pub story: S,
    pub faults: &'static [Fault],
}

/// Which injections are made.
#[derive(Clone, Copy, Debug)]
pub enum Selection {
    /// Every fault at every write.
    All,
    /// About this many, spread evenly; the same ones each time.
    Sample(usize),
}

/// How one telling went.
struct Told {
    end: &'static str,
    writes: usize,
    met: bool,
    took: Duration,
}

impl<S: Story> Matrix<S> {
    /// Runs it and prints what was done.
    ///
    /// # Panics
    /// When a story does not come to an end that may stand; all others are told first.
    pub async fn run(&self, selection: Selection) {
        self.run_side_by_side(selection, 1).await;
    }

    /// The same with several stories at once, each in its namespace: a kill then meets all of them.
    ///
    /// # Panics
    /// As [`Matrix::run`].
    pub async fn run_side_by_side(&self, selection: Selection, at_once: usize) {
        let scene = &Scene::start(S::CONTROLLERS).await;
        let peace = self.tell(scene, None).await.unwrap_or_else(|why| panic!("{} in peace: {why}", S::NAME));
        assert!(peace.writes > 0, "{}: no write went through the proxy", S::NAME);
        println!("{}: {} writes in peace, {:?}, end: {}", S::NAME, peace.writes, peace.took, peace.end);

        let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut met, mut failed) = (0, Vec::new());
        let told = futures::stream::iter(injections(peace.writes, self.faults, selection))
            .map(|injection| async move { (injection, self.tell(scene, Some(injection)).await) })
            .buffer_unordered(at_once);
        let mut told = std::pin::pin!(told);
        while let Some((injection, told)) = told.next().await {
            match told {
                Ok(told) => {
                    println!("{}: {injection}: {} after {:?}", S::NAME, told.end, told.took);
                    *ends.entry(told.end).or_default() += 1;
                    met += usize::from(told.met);
                }
                Err(why) => {
                    println!("{}: {injection}: {why}", S::NAME);
                    failed.push(format!("{injection}: {why}"));
                    scene.replace_server().await;
                }
            }
        }
        println!("{}: {met} injections met their write, ends: {ends:?}, {} failed", S::NAME, failed.len());
        assert!(failed.is_empty(), "{} did not end well:\n{}", S::NAME, failed.join("\n"));
        assert!(met > 0, "{}: no injection met its write", S::NAME);
    }

    async fn tell(&self, scene: &Scene, injection: Option<Injection>) -> Result<Told, String> {
        let namespace = self.story.prepare(scene).await;
        let counted = writes(&namespace);
        let before = scene.proxy.count(&counted);
        let rule = injection.map(|i| scene.proxy.inject(counted.clone().nth(i.write), i.fault.at_the_proxy()));
        let begin = Instant::now();
        self.story.begin(scene, &namespace).await;
        let (end, met) = self.until_settled(scene, &namespace, injection.zip(rule)).await;
        if let Some(rule) = rule {
            scene.proxy.remove(rule);
        }
        let end = end?;
        let took = begin.elapsed();
        if !scene.is_served().await {
            return Err(format!("our server has ended by itself:\n{}", scene.last_words().await));
        }
        let writes = scene.proxy.count(&counted) - before;
        scene.strike(&namespace).await;
        Ok(Told { end, writes, met, took })
    }

    /// Waits for the end, and kills our server when it meets a write at which it is to be killed. Also gives whether
    /// the injection met its write.
    async fn until_settled(
        &self,
        scene: &Scene,
        namespace: &str,
        injected: Option<(Injection, RuleId)>,
    ) -> (Result<&'static str, String>, bool) {
        let begin = Instant::now();
        let mut met = false;
        loop {
            if let (Some((injection, rule)), false) = (injected, met)
                && scene.proxy.applied(rule) > 0
            {
                met = true;
                if injection.fault.kills() {
                    scene.proxy.remove(rule);
                    scene.replace_server().await;
                }
            }
            let failure = match self.settled(scene, namespace).await {
                Ok(end) => return (Ok(end), met),
                Err(NoEnd::Never(what)) => what,
                Err(NoEnd::Missing(what)) if begin.elapsed() > WITHIN => format!("no end within {WITHIN:?}: {what}"),
                Err(NoEnd::Missing(_)) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            return (Err(format!("{failure}\n{}", scene.last_words().await)), met);
        }
    }

    /// An end, if it is one now and a moment later.
    async fn settled(&self, scene: &Scene, namespace: &str) -> Result<&'static str, NoEnd> {
        let first = self.story.look(scene, namespace).await?;
        tokio::time::sleep(SETTLED).await;
        let second = self.story.look(scene, namespace).await?;
        if first == second { Ok(second) } else { Err(format!("{first}, and then {second}").into()) }
    }
}

/// Each of these faults at each of so many writes, or some of them.
pub fn injections(writes: usize, faults: &[Fault], selection: Selection) -> Vec<Injection> {
    let each = |write| faults.iter().map(move |&fault| Injection { write, fault });
    let all: Vec<Injection> = (1..=writes).flat_map(each).collect();
    match selection {
        Selection::All => all,
        Selection::Sample(size) => {
            // A step that shares no factor with the number of faults, or some would never be drawn.
            let mut step = (all.len() / size.max(1)).max(1);
            while step > 1 && gcd(step, faults.len()) > 1 {
                step -= 1;
            }
            all.into_iter().step_by(step).collect()
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
