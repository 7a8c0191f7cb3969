// Package kubernetes has the tests of deploy on a control plane of Kubernetes: etcd, the API server, the controllers and the scheduler. KWOK
// simulates nodes and pods, so no container runs, no probe is sent, no packet flows and no volume is mounted.
package kubernetes
