// Package gatewaytest has what tests and benchmarks of S3 share: a gateway that serves a folder by
// S3's protocol (versitygw, in a separate process), and a proxy in front of the gateway, which
// counts requests, and can delay, cut, corrupt and throttle responses.
package gatewaytest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// The access key and the secret key that a gateway accepts.
const (
	Access = "testaccess"
	Secret = "testsecret12"
)

// programEnv is the environment variable that names a gateway program that was built before. If it
// is not set, Start builds the program.
const programEnv = "PENSTOCK_S3GATEWAY"

// Gateway is a gateway that runs.
type Gateway struct {
	URL     string
	process *exec.Cmd
	ends    io.Closer // the process's standard input; closing it ends the process
	client  *s3.Client
	built   string // folder of the program that Start has built; "" if it has built none
}

// Start starts a gateway over a folder, in which each folder is a bucket. It builds the gateway
// first, unless the environment names a program. The gateway ends when Close is called, or when
// this process ends.
func Start(ctx context.Context, root string) (_ *Gateway, err error) {
	g := &Gateway{}
	program := os.Getenv(programEnv)
	if _, missing := os.Stat(program); missing != nil {
		if program, err = g.build(ctx); err != nil {
			return nil, err
		}
	}
	g.process = exec.Command(program, "-access", Access, "-secret", Secret, root) //nolint:gosec // the gateway's process, which Close ends
	g.process.Stderr = os.Stderr
	in, err := g.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := g.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.process.Start(); err != nil {
		return nil, err
	}
	g.ends = in
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the gateway did not start: %w", err), g.Close())
	}
	g.URL = strings.TrimSpace(line)
	g.client = s3.New(s3.Options{
		BaseEndpoint: &g.URL, UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(Access, Secret, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	return g, nil
}

// build makes the gateway of tools/s3gateway.
func (g *Gateway) build(ctx context.Context) (program string, err error) {
	root, err := workspace()
	if err != nil {
		return "", err
	}
	if g.built, err = os.MkdirTemp("", "s3gateway"); err != nil {
		return "", err
	}
	program = filepath.Join(g.built, "s3gateway")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "tools", "s3gateway"), "-o", program, ".") //nolint:gosec // the program is part of this repository
	if said, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("the gateway cannot be built: %w: %s", err, said), os.RemoveAll(g.built))
	}
	return program, nil
}

// workspace returns the nearest folder above the working directory that has a go.work: the checkout.
func workspace() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the working directory is in no checkout with a go.work")
		}
	}
	return "", err
}

// Close ends the gateway.
func (g *Gateway) Close() error {
	err := g.ends.Close()
	_ = g.process.Wait() // its standard input is closed
	if g.built != "" {
		err = errors.Join(err, os.RemoveAll(g.built))
	}
	return err
}

// MakeBucket creates a bucket.
func (g *Gateway) MakeBucket(ctx context.Context, bucket string) error {
	_, err := g.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	return err
}

// Begin begins an upload in parts that is never finished.
func (g *Gateway) Begin(ctx context.Context, bucket, key string) error {
	_, err := g.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key})
	return err
}

// Put creates an object, or replaces it.
func (g *Gateway) Put(ctx context.Context, bucket, key string, content []byte) error {
	_, err := g.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
	})
	return err
}
