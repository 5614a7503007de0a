use std::path::Path;

use super::source::Source;
use super::*;

const HOUR: Duration = Duration::from_hours(1);

fn settings(source: Source) -> Settings {
    let times = Times { authority: HOUR * 9, leaf: HOUR * 3, spread: Duration::ZERO, recheck: Duration::from_secs(1) };
    Settings { source, names: vec!["localhost".to_owned()], times, client_authorities: None }
}

fn shared(directory: &Path) -> Settings {
    settings(Source::SelfManaged(Store::Directory(directory.to_owned())))
}

/// The authority that signed what is served.
fn signer(serving: &Serving) -> String {
    serving.present.kept.as_ref().unwrap().authority.certificate_pem().to_owned()
}

fn live(bundle: &Bundle) -> Trusted {
    Trusted::Bundle(bundle.clone())
}

#[tokio::test]
async fn replicas_that_start_together_share_one_authority() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("authority");
    let starts = (0..8).map(|_| {
        let settings = shared(&directory);
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(Serving::start(settings)).unwrap().trust().borrow().bundle.clone()
        })
    });
    let bundles = futures::future::join_all(starts).await;
    let first = bundles[0].as_ref().unwrap();
    assert_eq!(first.certificates().count(), 1);
    assert!(bundles.iter().all(|bundle| bundle.as_ref().unwrap() == first));
}

#[tokio::test]
async fn a_leaf_is_renewed_with_a_third_of_its_life_left_and_asks_for_no_new_trust() {
    let folder = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(shared(&folder.path().join("authority"))).await.unwrap();
    let (before, now) = (serving.trust().borrow().clone(), Timestamp::now());
    serving.renew(now + HOUR).await.unwrap();
    assert_eq!(*serving.trust().borrow(), before);
    serving.renew(now + HOUR * 2).await.unwrap();
    let after = serving.trust().borrow().clone();
    assert!(after.bundle == before.bundle && after.not_after > before.not_after);
}

#[tokio::test]
async fn the_next_authority_signs_only_when_it_is_trusted_and_is_the_same_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = shared(&folder.path().join("authority"));
    settings.times.leaf = settings.times.authority;
    let (mut one, mut two) = (Serving::start(settings.clone()).await.unwrap(), Serving::start(settings).await.unwrap());
    let old = signer(&one);
    let old_bundle = one.trust().borrow().bundle.clone();
    one.trusted().send_replace(live(&old_bundle));
    two.trusted().send_replace(live(&old_bundle));

    let late = Timestamp::now() + HOUR * 6;
    one.renew(late).await.unwrap();
    two.renew(late).await.unwrap();
    // Both ask for the same trust, besides the old one, and go on with the old authority meanwhile.
    let wanted = one.trust().borrow().bundle.clone();
    assert!(wanted.covers(&old_bundle) && wanted.certificates().count() == 2);
    assert_eq!(two.trust().borrow().bundle, wanted);
    assert_eq!((signer(&one), signer(&two)), (old.clone(), old.clone()));

    one.trusted().send_replace(live(&wanted));
    one.renew(late).await.unwrap();
    two.renew(late).await.unwrap();
    assert_ne!(signer(&one), old);
    assert_eq!(signer(&two), old, "it was not told");
    two.trusted().send_replace(live(&wanted));
    two.renew(late).await.unwrap();
    assert_eq!(signer(&two), signer(&one));
    // The old one is trusted until it has ended.
    assert!(one.trust().borrow().bundle.covers(&old_bundle));
}

#[tokio::test]
async fn an_authority_that_was_deleted_or_damaged_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("authority");
    let mut serving = Serving::start(shared(&directory)).await.unwrap();
    let before = signer(&serving);
    std::fs::remove_dir_all(&directory).unwrap();
    serving.renew(Timestamp::now()).await.unwrap();
    assert_eq!(std::fs::read_to_string(directory.join("tls.crt")).unwrap(), before);
    let other = Authority::generate(Timestamp::now(), HOUR).unwrap();
    std::fs::write(directory.join("tls.key"), other.key_pem()).unwrap();
    serving.renew(Timestamp::now()).await.unwrap();
    assert!(Authority::from_pem(&before, &std::fs::read_to_string(directory.join("tls.key")).unwrap()).is_ok());
    assert_eq!(signer(&serving), before);
    // Nobody who starts now can repair it, and says what to do.
    std::fs::write(directory.join("tls.key"), other.key_pem()).unwrap();
    let Err(error) = Serving::start(shared(&directory)).await else { panic!("it started") };
    assert!(chain(&error).contains("delete it"), "{}", chain(&error));
}

#[tokio::test]
async fn an_authority_that_somebody_put_there_is_taken_over_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("authority");
    let mut serving = Serving::start(shared(&directory)).await.unwrap();
    let before = serving.trust().borrow().bundle.clone();
    serving.trusted().send_replace(live(&before));
    let other = Authority::generate(Timestamp::now(), HOUR * 9).unwrap();
    for (name, text) in
        [("ca.crt", other.certificate_pem()), ("tls.crt", other.certificate_pem()), ("tls.key", other.key_pem())]
    {
        std::fs::write(directory.join(name), text).unwrap();
    }
    serving.renew(Timestamp::now()).await.unwrap();
    let wanted = serving.trust().borrow().bundle.clone();
    assert!(wanted.covers(&before) && wanted.covers(&Bundle::parse(other.certificate_pem()).unwrap()));
    assert_ne!(signer(&serving), other.certificate_pem());
    serving.trusted().send_replace(live(&wanted));
    serving.renew(Timestamp::now()).await.unwrap();
    assert_eq!(signer(&serving), other.certificate_pem());
}

fn write_files(directory: &Path, authority: &Authority, name: &str) {
    let leaf = authority.issue(&[name.to_owned()], Timestamp::now(), HOUR).unwrap();
    std::fs::write(directory.join("tls.crt"), leaf.certificate_pem).unwrap();
    std::fs::write(directory.join("tls.key"), leaf.key_pem).unwrap();
    std::fs::write(directory.join("ca.crt"), authority.certificate_pem()).unwrap();
}

#[tokio::test]
async fn given_files_are_read_again_whatever_events_there_were() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(Timestamp::now(), HOUR * 9).unwrap();
    write_files(folder.path(), &authority, "localhost");
    let mut serving = Serving::start(settings(Source::Files(folder.path().to_owned()))).await.unwrap();
    let first = serving.present.chain.clone();
    serving.renew(Timestamp::now()).await.unwrap();
    assert_eq!(serving.present.chain, first);
    write_files(folder.path(), &authority, "localhost");
    serving.renew(Timestamp::now()).await.unwrap();
    assert_ne!(serving.present.chain, first);

    // Files that callers would not accept are not served; the ones before them are.
    let served = serving.present.chain.clone();
    write_files(folder.path(), &authority, "elsewhere.example");
    let error = serving.renew(Timestamp::now()).await.unwrap_err();
    assert!(chain(&error).contains("callers would not accept the certificate for localhost"), "{}", chain(&error));
    write_files(folder.path(), &authority, "localhost");
    std::fs::write(folder.path().join("tls.key"), "nonsense").unwrap();
    serving.renew(Timestamp::now()).await.unwrap_err();
    assert_eq!(serving.present.chain, served);

    // Another authority is trusted before it is served.
    let next = Authority::generate(Timestamp::now(), HOUR * 9).unwrap();
    serving.trusted().send_replace(live(&serving.present.bundle));
    write_files(folder.path(), &next, "localhost");
    serving.renew(Timestamp::now()).await.unwrap();
    assert_eq!(serving.present.chain, served);
    let wanted = serving.trust().borrow().bundle.clone();
    assert_eq!(wanted.certificates().count(), 2);
    serving.trusted().send_replace(live(&wanted));
    serving.renew(Timestamp::now()).await.unwrap();
    assert_ne!(serving.present.chain, served);
}

#[tokio::test]
async fn a_broken_file_of_callers_authorities_does_not_stop_renewal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("callers.crt");
    std::fs::write(&file, Authority::generate(Timestamp::now(), HOUR * 9).unwrap().certificate_pem()).unwrap();
    let mut settings = shared(&folder.path().join("authority"));
    settings.client_authorities = Some(file.clone());
    let mut serving = Serving::start(settings).await.unwrap();
    let before = serving.trust().borrow().not_after;
    for broken in ["nonsense", ""] {
        std::fs::write(&file, broken).unwrap();
        let error = serving.renew(Timestamp::now()).await.unwrap_err();
        assert!(chain(&error).contains("callers.crt holds no authorities"), "{}", chain(&error));
    }
    std::fs::remove_file(&file).unwrap();
    serving.renew(Timestamp::now() + HOUR * 2).await.unwrap_err();
    assert!(serving.trust().borrow().not_after > before);
}

#[tokio::test]
async fn a_certificate_that_ends_is_replaced_whoever_trusts_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(shared(&folder.path().join("authority"))).await.unwrap();
    let old = signer(&serving);
    serving.trusted().send_replace(live(&serving.present.bundle.clone()));
    serving.renew(Timestamp::now() + HOUR * 10).await.unwrap();
    assert_ne!(signer(&serving), old);
}

#[test]
fn secrets_never_reach_debug_output() {
    let authority = Authority::generate(Timestamp::now(), HOUR).unwrap();
    let leaf = authority.issue(&["localhost".to_owned()], Timestamp::now(), HOUR).unwrap();
    let kept = Kept { bundle: Bundle::default(), authority };
    for text in [format!("{kept:?}"), format!("{leaf:?}")] {
        assert!(!text.contains("PRIVATE KEY") && text.len() < 400, "{text}");
    }
}
