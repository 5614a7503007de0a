module etcd-warden.io/golden-template

go 1.26.8

require github.com/go-task/slim-sprig/v3 v3.0.0
