module dranet-nri/tests/host_crio

go 1.26.0

require github.com/cri-o/cri-o v1.34.0
