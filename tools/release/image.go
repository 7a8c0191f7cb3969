package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Users of the image. The numbers are those that others use for a user without rights, so that a cluster may require them.
const (
	imageUser  = 65532
	imageGroup = 65532
)

// imagePort is where the server listens in a container.
const imagePort = 8815

// image writes an image for each platform on Linux into the folder image, as an OCI image layout.
func (c *checkout) image(ctx context.Context, platforms []platform) error {
	all := v1.ImageIndex(empty.Index)
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		one, err := c.imageOf(ctx, p)
		if err != nil {
			return err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{Architecture: p.arch, OS: p.os}}})
	}
	if all == empty.Index {
		return errors.New("images are on Linux, and no platform is")
	}
	digest, err := all.Digest()
	if err != nil {
		return err
	}
	folder := filepath.Join(c.out, "image")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	to, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// The index of the layout names one image of all platforms.
	if err := to.AppendIndex(all, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": c.version})); err != nil {
		return err
	}
	fmt.Printf("release: %s, %s\n", folder, digest)
	return nil
}

// imageOf returns the image of a platform: one layer of the system, one of the program.
func (c *checkout) imageOf(ctx context.Context, p platform) (v1.Image, error) {
	built, err := c.build(ctx, p)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(built.path)
	if err != nil {
		return nil, err
	}
	notices, err := c.notices(ctx, built.build)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(c.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	system, err := layer(systemFiles(), c.time)
	if err != nil {
		return nil, err
	}
	product, err := layer([]layerFile{
		{path: "usr/"},
		{path: "usr/local/"},
		{path: "usr/local/bin/"},
		{path: "usr/local/bin/penstock", text: text, mode: 0o755},
		{path: "licenses/"},
		{path: "licenses/LICENSE", text: license},
		{path: "licenses/" + noticesFile, text: notices},
	}, c.time)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Created: v1.Time{Time: c.time}, Architecture: p.arch, OS: p.os, Config: c.imageRun(), RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, system, product)
}

func (c *checkout) imageRun() v1.Config {
	return v1.Config{
		User: fmt.Sprintf("%d:%d", imageUser, imageGroup), WorkingDir: "/",
		ExposedPorts: map[string]struct{}{fmt.Sprintf("%d/tcp", imagePort): {}},
		Env:          []string{"PATH=/usr/local/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "PENSTOCK_CONFIG=/etc/penstock/penstock.yaml", "PENSTOCK_SPOOL=/var/lib/penstock/spool"},
		Entrypoint:   []string{"/usr/local/bin/penstock"}, Cmd: []string{"serve"},
		Volumes: map[string]struct{}{"/var/lib/penstock": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "penstock", "org.opencontainers.image.version": c.version,
			"org.opencontainers.image.revision": c.commit, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
}

// systemFiles are what a static program needs of a system: users, certificate authorities, and a folder for temporary files.
func systemFiles() []layerFile {
	users := fmt.Sprintf("root:x:0:0:root:/:/nologin\npenstock:x:%d:%d:penstock:/var/lib/penstock:/nologin\n", imageUser, imageGroup)
	groups := fmt.Sprintf("root:x:0:\npenstock:x:%d:\n", imageGroup)
	return []layerFile{
		{path: "etc/"},
		{path: "etc/passwd", text: []byte(users)},
		{path: "etc/group", text: []byte(groups)},
		{path: "etc/nsswitch.conf", text: []byte("hosts: files dns\n")},
		{path: "etc/penstock/"},
		{path: "etc/ssl/"},
		{path: "etc/ssl/certs/"},
		{path: "etc/ssl/certs/ca-certificates.crt", text: authorities()},
		{path: "tmp/", mode: 0o1777},
		{path: "var/"},
		{path: "var/lib/"},
		{path: "var/lib/penstock/", mode: 0o700, owner: imageUser},
	}
}

// authorities returns Mozilla's certificate authorities, of the version that go.mod pins. Those that may only sign for some
// names or until some time, which a file of certificates cannot say, are left out.
func authorities() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}
