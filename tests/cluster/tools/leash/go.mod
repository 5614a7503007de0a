module etcd-warden.io/bed/leash

go 1.26.0
