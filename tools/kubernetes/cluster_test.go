package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	kubernetesclient "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

const (
	nodes = replicas + 2 // a new server is ready before an old one ends, also where no two may share a node
	// deadline is how long a test waits for a change of the cluster. It takes seconds unless the machine is busy.
	deadline = 3 * time.Minute
	token    = "tests" // of the user of the tests, who may do anything
)

// cluster is a control plane whose nodes and pods are simulated: no container runs, and no probe is sent.
type cluster struct {
	program string          // with all programs of the control plane
	folder  string          // with logs, keys and etcd's data
	server  string          // the address of the API server
	alive   context.Context //nolint:containedctx // it ends with the first program that ends: tests then wait for nothing
	ended   context.CancelCauseFunc

	settings *rest.Config
	client   kubernetesclient.Interface
	objects  dynamic.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
}

// startCluster starts a control plane that ends with the test.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{program: os.Getenv("PENSTOCK_CLUSTER"), folder: t.TempDir()}
	c.alive, c.ended = context.WithCancelCause(t.Context())
	require.NotEmpty(t, c.program, "PENSTOCK_CLUSTER names no program: run make test-kubernetes")
	etcd, peers, port := freeAddress(t), freeAddress(t), freeAddress(t)
	c.server = "https://" + port
	keys := c.writeKeys(t)
	c.start(t, "etcd", "--name=tests", "--data-dir="+filepath.Join(c.folder, "etcd-data"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peers, "--initial-advertise-peer-urls=http://"+peers, "--initial-cluster=tests=http://"+peers)
	_, number, err := net.SplitHostPort(port)
	require.NoError(t, err)
	tokens := filepath.Join(c.folder, "tokens.csv")
	require.NoError(t, os.WriteFile(tokens, []byte(token+",tests,tests,system:masters\n"), 0o600))
	c.start(t, "kube-apiserver", "--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--endpoint-reconciler-type=none", "--secure-port="+number,
		"--cert-dir="+filepath.Join(c.folder, "certificates"), "--token-auth-file="+tokens, "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer="+c.server, "--service-account-key-file="+keys, "--service-account-signing-key-file="+keys)
	c.connect(t)
	settings := c.writeSettings(t)
	c.start(t, "kube-controller-manager", "--kubeconfig="+settings, "--leader-elect=false", "--secure-port=0", "--service-account-private-key-file="+keys)
	c.start(t, "kube-scheduler", "--kubeconfig="+settings, "--leader-elect=false", "--secure-port=0")
	stages := filepath.Join(c.folder, "stages.yaml")
	text := nodestages.DefaultNodeInit + "\n---\n" + podstages.DefaultPodReady + "\n---\n" + podstages.DefaultPodComplete + "\n---\n" + podstages.DefaultPodDelete
	require.NoError(t, os.WriteFile(stages, []byte(text), 0o600))
	c.start(t, "kwok", "--kubeconfig="+settings, "--manage-all-nodes", "--config="+stages, "--node-lease-duration-seconds=40")
	c.addNodes(t)
	return c
}

// start starts one of the programs. When the test ends, it is killed; it is also killed if the process of the tests is.
func (c *cluster) start(t *testing.T, name string, args ...string) {
	t.Helper()
	path := filepath.Join(c.folder, name+".log")
	log, err := os.Create(path)
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), c.program, append([]string{name}, args...)...)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, process.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // the state says how it ended
		c.ended(fmt.Errorf("%s has ended: %s", name, process.ProcessState))
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-ended
		_ = log.Close()
		if t.Failed() {
			end, _ := exec.Command("tail", "-n", "20", path).Output()
			t.Logf("the end of the log of %s:\n%s", name, end)
		}
	})
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// writeKeys writes the key that signs the tokens of service accounts.
func (c *cluster) writeKeys(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	text, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	path := filepath.Join(c.folder, "accounts.key")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}), 0o600))
	return path
}

// writeSettings writes the file with which the other programs find the API server.
func (c *cluster) writeSettings(t *testing.T) string {
	t.Helper()
	settings := api.NewConfig()
	settings.Clusters["tests"] = &api.Cluster{Server: c.server, InsecureSkipTLSVerify: true}
	settings.AuthInfos["tests"] = &api.AuthInfo{Token: token}
	settings.Contexts["tests"] = &api.Context{Cluster: "tests", AuthInfo: "tests"}
	settings.CurrentContext = "tests"
	path := filepath.Join(c.folder, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*settings, path))
	return path
}

// connect makes the clients, and waits until the API server is ready.
func (c *cluster) connect(t *testing.T) {
	t.Helper()
	c.settings = &rest.Config{Host: c.server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	var err error
	c.client, err = kubernetesclient.NewForConfig(c.settings)
	require.NoError(t, err)
	c.objects, err = dynamic.NewForConfig(c.settings)
	require.NoError(t, err)
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	ctx, cancel := context.WithTimeout(c.alive, deadline)
	defer cancel()
	require.NoError(t, poll(ctx, func(ctx context.Context) error {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}))
}

// poll repeats a call until it has no error. It is for what cannot be watched.
func poll(ctx context.Context, call func(context.Context) error) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last answer: %w", context.Cause(ctx), err)
		case <-again.C:
		}
	}
}

// addNodes adds the nodes. They are large enough for the examples, and have GPUs.
func (c *cluster) addNodes(t *testing.T) {
	t.Helper()
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("256"), corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("200"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		_, err := c.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%2), "disk": "nvme"},
			},
			Status: corev1.NodeStatus{Capacity: has, Allocatable: has},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}
