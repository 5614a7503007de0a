module etcd-warden.io/bed/ociarchive

go 1.26.0
