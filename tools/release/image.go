package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Users of the image. The numbers are those that others use for a user without rights, so that a cluster may require them.
const (
	imageUser  = 65532
	imageGroup = 65532
)

// imagePort is where the server listens in a container.
const imagePort = 8815

// Media types of an OCI image.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob of a layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// imagePlatform is the platform of a manifest.
type imagePlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// manifest is the manifest of an image, or an index of several.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// imageConfig is the configuration of an image.
type imageConfig struct {
	Created      time.Time   `json:"created"`
	Architecture string      `json:"architecture"`
	OS           string      `json:"os"`
	Config       imageRun    `json:"config"`
	RootFS       imageRootFS `json:"rootfs"`
}

// imageRun is how a container runs.
type imageRun struct {
	User         string
	ExposedPorts map[string]struct{}
	Env          []string
	Entrypoint   []string
	Cmd          []string
	Volumes      map[string]struct{}
	WorkingDir   string
	Labels       map[string]string
}

// imageRootFS has the digests of the layers, unpacked.
type imageRootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// image writes an image for each platform on Linux into the folder image, as an OCI image layout.
func (c *checkout) image(ctx context.Context, platforms []platform) error {
	layout, err := newLayout(filepath.Join(c.out, "image"))
	if err != nil {
		return err
	}
	index := manifest{SchemaVersion: 2, MediaType: typeIndex}
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		d, err := c.imageOf(ctx, layout, p)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, d)
	}
	if len(index.Manifests) == 0 {
		return errors.New("images are on Linux, and no platform is")
	}
	// The index of the layout names one image of all platforms.
	all, err := layout.addJSON(typeIndex, index)
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": c.version}
	if err := layout.finish(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}}); err != nil {
		return err
	}
	fmt.Printf("release: %s, %s\n", layout.folder, all.Digest)
	return nil
}

// imageOf adds the image of a platform: one layer of the system, one of the program.
func (c *checkout) imageOf(ctx context.Context, layout *layout, p platform) (descriptor, error) {
	built, err := c.build(ctx, p)
	if err != nil {
		return descriptor{}, err
	}
	text, err := os.ReadFile(built.path)
	if err != nil {
		return descriptor{}, err
	}
	notices, err := c.notices(ctx, built.build)
	if err != nil {
		return descriptor{}, err
	}
	license, err := os.ReadFile(filepath.Join(c.root, "LICENSE"))
	if err != nil {
		return descriptor{}, err
	}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest}
	fs := imageRootFS{Type: "layers"}
	for _, files := range [][]layerFile{
		systemFiles(),
		{
			{path: "usr/"},
			{path: "usr/local/"},
			{path: "usr/local/bin/"},
			{path: "usr/local/bin/penstock", text: text, mode: 0o755},
			{path: "licenses/"},
			{path: "licenses/LICENSE", text: license},
			{path: "licenses/" + noticesFile, text: notices},
		},
	} {
		blob, unpacked, err := layer(files, c.time)
		if err != nil {
			return descriptor{}, err
		}
		d, err := layout.add(typeLayer, blob)
		if err != nil {
			return descriptor{}, err
		}
		m.Layers, fs.DiffIDs = append(m.Layers, d), append(fs.DiffIDs, unpacked)
	}
	config, err := layout.addJSON(typeConfig, imageConfig{Created: c.time, Architecture: p.arch, OS: p.os, Config: c.imageRun(), RootFS: fs})
	if err != nil {
		return descriptor{}, err
	}
	m.Config = &config
	d, err := layout.addJSON(typeManifest, m)
	d.Platform = &imagePlatform{Architecture: p.arch, OS: p.os}
	return d, err
}

func (c *checkout) imageRun() imageRun {
	return imageRun{
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

// jsonText returns a value as it is written into a layout.
func jsonText(v any) ([]byte, error) { return json.Marshal(v) }
