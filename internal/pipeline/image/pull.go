package image

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/oci"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// heartbeat of the lease that a pull holds.
const heartbeat = 10 * time.Second

// repairs are how many parts of the stores are filled at once.
const repairs = 4

// Pulling fetches an image into an index.
type Pulling struct {
	Ports     *run.Ports
	Index     string
	Place     *oci.Place
	Key       *ecdsa.PublicKey // that signed the image; nil: any image is taken
	Adopt     bool             // let builds change the index from then on
	Force     bool             // replace an index that does not come from such an image
	Operator  core.Operator
	Standings run.Standings
	Meter     *Meter
}

// pull is one on its way.
type pull struct {
	Pulling
	index    artifact.Index
	image    *Image
	manifest *core.Manifest
	spec     core.Spec
	current  core.Pointer
	pulled   core.Pulled // what the index was pulled from; zero: it was not
	holder   run.Holder
	fence    int64
	moved    atomic.Int64
}

// Pull makes an index serve an image. Files that are there are not fetched, so that the same call goes on with a pull
// that ended early. Nothing is served before all files are proven and the stores are filled.
func Pull(ctx context.Context, in Pulling) (core.Transfer, error) {
	began := time.Now()
	p := &pull{Pulling: in, index: artifact.Index{Store: in.Ports.Artifacts, Name: in.Index}}
	err := errors.Join(p.index.Check(), run.RefuseDeleted(ctx, p.index))
	if err != nil {
		return core.Transfer{}, err
	}
	in.Meter.Begin("resolve", 0)
	if p.image, err = Read(ctx, in.Place, in.Key); err != nil {
		return core.Transfer{}, err
	}
	out := p.image.describe(core.TransferPull, in.Index, in.Place)
	if err = p.readTables(ctx); err == nil {
		err = p.runLeased(ctx, func(ctx context.Context) error {
			out.Unchanged, err = p.fill(ctx)
			return err
		})
	}
	out.Moved, out.Adopted, out.Seconds = p.moved.Load(), p.pulled.Adopted, time.Since(began).Seconds()
	return out, err
}

// readTables reads the manifest and the configuration of the image, and compares the files with what they name.
func (p *pull) readTables(ctx context.Context) error {
	bad := fault.InvalidParam.At("read image", p.Place.Name+"@"+p.image.Descriptor.Digest.String())
	sizes := map[string]int64{}
	var manifest, spec *ocispec.Descriptor
	for i, file := range p.image.files {
		switch key := keyOf(file); {
		case key == "segments/"+p.image.Config.Manifest:
			manifest = &p.image.files[i]
		case key == "specs/"+p.image.Config.Spec.String()+".json":
			spec = &p.image.files[i]
		case strings.HasPrefix(key, "segments/"):
			sizes[file.Digest.Encoded()] = file.Size
		}
	}
	if manifest == nil || spec == nil {
		return bad.Because("it has no manifest or no configuration")
	}
	for _, table := range []struct {
		file *ocispec.Descriptor
		most int64
		into any
	}{{manifest, mostTable, &p.manifest}, {spec, mostConfig, &p.spec}} {
		raw, err := p.Place.FetchBytes(ctx, *table.file, table.most)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, table.into); err != nil {
			return bad.Because(err)
		}
	}
	if p.manifest == nil || p.manifest.Generation != p.image.Config.Generation || p.manifest.Spec != p.image.Config.Spec {
		return bad.Because("its manifest is of another generation")
	}
	if p.manifest.Format != core.ManifestFormat {
		return fault.FormatUnknown.At("read image", p.Place.Name).
			Because(fmt.Sprintf("its manifest has format %d, and this program reads format %d", p.manifest.Format,
				core.ManifestFormat)).
			Advise("use the program version that built it")
	}
	named := unit.SegmentsOf(p.manifest)
	for _, segment := range named {
		if size, there := sizes[segment.SHA256]; !there || size != segment.Bytes {
			return bad.Because("segment " + segment.SHA256 + " is missing or has another size than its manifest says")
		}
	}
	if len(named) != len(sizes) {
		return bad.Because("it has segments that its manifest does not name")
	}
	return nil
}

// runLeased does something while this process holds the lease of the index: no build begins meanwhile.
func (p *pull) runLeased(ctx context.Context, do func(context.Context) error) error {
	p.holder = run.Holder{
		Workflow: "build/" + p.Index + "/" + run.PullGeneration + time.Now().UTC().Format("20060102t150405z"),
		Run:      uuid.NewString(), Heartbeat: heartbeat,
	}
	var err error
	if p.fence, err = run.TakeLease(ctx, p.index, p.holder, p.Standings); err != nil {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	beat := time.NewTicker(heartbeat / 4)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for held.Err() == nil {
			select {
			case <-held.Done():
			case <-beat.C:
				if err := run.HoldLease(held, p.index, p.holder, p.fence); fault.Is(err, fault.LeaseLost) {
					lose(err)
				}
			}
		}
	}()
	err = do(held)
	if cause := context.Cause(held); err != nil && cause != nil {
		err = cause
	}
	beat.Stop()
	lose(context.Canceled)
	<-ended
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeat/2)
	defer cancel()
	return errors.Join(err, run.GiveLease(back, p.index, p.holder))
}

// fill fetches what is missing, fills the stores and serves the generation. unchanged: it is served already.
func (p *pull) fill(ctx context.Context) (unchanged bool, err error) {
	if unchanged, err = p.checkIndex(ctx); err != nil {
		return unchanged, err
	}
	if unchanged {
		p.pulled.Adopted = p.pulled.Adopted || p.Adopt
		return true, p.writePulled(ctx)
	}
	if err := p.adapt(); err != nil {
		return false, err
	}
	if err := p.fetchFiles(ctx); err != nil {
		return false, err
	}
	if _, err := p.index.PutSpec(ctx, p.spec); err != nil {
		return false, err
	}
	if err := p.fillStores(ctx); err != nil {
		return false, err
	}
	from := p.Place.Name
	if !p.Place.Local {
		from += ":" + p.Place.Tag
	}
	p.pulled = core.Pulled{
		From: from, Digest: p.image.Descriptor.Digest.String(), Generation: p.manifest.Generation,
		At: time.Now().UTC(), Adopted: p.Adopt,
	}
	if err := p.writePulled(ctx); err != nil {
		return false, err
	}
	return false, p.serve(ctx)
}

func (p *pull) writePulled(ctx context.Context) error {
	_, err := blob.WriteJSON(ctx, p.index.Store, p.index.PulledKey(), p.pulled, blob.Cond{})
	return err
}

// checkIndex refuses to replace an index that is not a copy of this one. unchanged: it serves the image already.
func (p *pull) checkIndex(ctx context.Context) (unchanged bool, err error) {
	refused := fault.Usage.At("pull into", p.Index)
	base, err := p.index.FindBase(ctx)
	if err != nil {
		return false, err
	}
	if base.Name != p.Index {
		return false, refused.Because("it is a branch of " + base.Name).Advise("choose another name")
	}
	if p.current, _, err = p.index.ReadPointer(ctx); err != nil || p.current.Generation == "" {
		return false, err
	}
	found, err := blob.ReadJSON(ctx, p.index.Store, p.index.PulledKey(), &p.pulled)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if p.pulled.Digest == p.image.Descriptor.Digest.String() && p.pulled.Generation == p.current.Generation {
		return true, nil
	}
	force := "choose another name; or add --force, which replaces what it serves: a rollback brings it back"
	if (found.ETag == "" || p.pulled.Adopted) && !p.Force {
		return false, refused.Because("the index is built here").Advise(force)
	}
	there, err := p.index.Manifest(ctx, p.current.Manifest)
	if err != nil {
		return false, err
	}
	spec, err := p.index.Spec(ctx, there.Spec)
	if err != nil {
		return false, err
	}
	if spec.Corpus != p.spec.Corpus && !p.Force {
		return false, refused.Because("it is built from " + spec.Corpus + ", the image from " + p.spec.Corpus).Advise(force)
	}
	ref, err := p.index.GenerationRef(ctx, p.manifest.Generation)
	if err == nil && ref.State == core.GenerationPublished {
		return false, refused.Because("it has generation " + p.manifest.Generation + " already").
			Advise("serve it again: unweaver rollback " + p.Index + " " + p.manifest.Generation)
	}
	if fault.Is(err, fault.UnknownGen) {
		err = nil
	}
	return false, err
}

// collection is what the name of a collection ends with, after its store and index.
var collection = regexp.MustCompile(`^(classes|chunks)_[0-9a-f]{8}_[0-9]{1,9}$`)

// adapt makes the manifest one of this store and index, and what is served now its parent.
func (p *pull) adapt() error {
	from, to := "", core.CollectionPrefix(p.Ports.StoreID, p.Index)
	if len(p.manifest.Store) >= 8 {
		from = core.CollectionPrefix(p.manifest.Store, p.manifest.StoredIndex())
	}
	for _, name := range []*string{&p.manifest.Collections.Classes, &p.manifest.Collections.Chunks} {
		rest, ok := strings.CutPrefix(*name, from)
		if !ok || !collection.MatchString(rest) {
			return fault.InvalidParam.At("read image", p.Place.Name).
				Because("it names a collection " + fault.QuoteName(*name))
		}
		*name = to + rest
	}
	p.spec.Index = p.Index
	raw, err := json.Marshal(p.spec)
	if err != nil {
		return err
	}
	m := p.manifest
	m.Index, m.Family, m.Store, m.Spec = p.Index, "", p.Ports.StoreID, core.Digest(sha256.Sum256(raw))
	m.Parent, m.Seq = p.current.Manifest, max(m.Seq, p.current.Seq+1)
	return nil
}

// fetchFiles fetches the files that the index lacks. Of a file that is there the size is trusted where the served
// generation has it, else its bytes are read.
func (p *pull) fetchFiles(ctx context.Context) error {
	served := map[string]bool{}
	if p.current.Manifest != "" {
		there, err := p.index.Manifest(ctx, p.current.Manifest)
		if err != nil {
			return err
		}
		for _, segment := range there.Segments.All() {
			served[segment.SHA256] = true
		}
	}
	sizes, err := unit.StoredSizes(ctx, p.index, func() {})
	if err != nil {
		return err
	}
	p.Meter.Begin("pull", p.image.Config.Bytes)
	return eachFile(ctx, p.image.files, func(ctx context.Context, file ocispec.Descriptor) error {
		key, err := p.image.place(p.index, file)
		sum := file.Digest.Encoded()
		if size, there := sizes[sum]; err == nil && there && size == file.Size && key == p.index.SegmentKey(sum) {
			intact := served[sum]
			if !intact {
				intact, err = p.index.IsIntact(ctx, sum, nil)
			}
			if err != nil || intact {
				p.Meter.Add(int(file.Size))
				return err
			}
		}
		if err != nil || key == "" {
			return err
		}
		err = p.Place.Fetch(ctx, file, func(in io.Reader) error {
			_, err := p.index.Store.Put(ctx, key, in, file.Size, blob.Cond{})
			return err
		}, p.Meter.Add)
		if err == nil {
			p.moved.Add(file.Size)
		}
		return err
	})
}

// fillStores writes the records and vectors that the generation names, as a restore does.
func (p *pull) fillStores(ctx context.Context) error {
	work := release.OpenBare(p.Ports, run.Job{
		Index: p.Index, Generation: p.manifest.Generation, Fence: p.fence, Holder: p.holder,
	}, core.TransferPull, "pull")
	defer work.Close()
	collections := p.manifest.Collections
	if err := work.ReopenVectors(ctx, collections); err != nil {
		return err
	}
	if err := p.Ports.Vectors.Create(ctx, collections.Classes, p.manifest.Class.Dimension); err != nil {
		return err
	}
	if err := p.Ports.Vectors.Create(ctx, collections.Chunks, p.manifest.Chunk.Dimension); err != nil {
		return err
	}
	var parts []run.Part
	var bytes int64
	for _, part := range unit.PartsOf("", p.manifest) {
		if part.Check == run.CheckStore {
			parts, bytes = append(parts, part), bytes+part.Unit.Segment.Bytes
		}
	}
	p.Meter.Begin("restore", bytes)
	if err := parallel.Each(ctx, len(parts), repairs, func(ctx context.Context, i int) error {
		_, err := work.RepairPart(ctx, p.manifest, parts[i])
		p.Meter.Add(int(parts[i].Unit.Segment.Bytes))
		return err
	}); err != nil {
		return err
	}
	if sealer, ok := vectors.As[vectors.Sealer](p.Ports.Vectors); ok {
		return errors.Join(sealer.Seal(ctx, collections.Classes), sealer.Seal(ctx, collections.Chunks))
	}
	return nil
}

// serve writes the reference and has the desk of releases publish the generation.
func (p *pull) serve(ctx context.Context) error {
	p.Meter.Begin("publish", 0)
	if err := run.HoldLease(ctx, p.index, p.holder, p.fence); err != nil {
		return err
	}
	_, err := p.index.GenerationRef(ctx, p.manifest.Generation)
	if fault.Is(err, fault.UnknownGen) {
		_, err = publish.Store(ctx, p.index, p.manifest, core.GenerationHeld)
	}
	if err != nil {
		return err
	}
	if p.Operator.Reason == "" {
		p.Operator.Reason = "pulled from " + p.Place.Name + "@" + p.image.Descriptor.Digest.String()
	}
	desk := &release.Desk{
		Artifacts: p.Ports.Artifacts, Mirror: p.Ports.Coordination, Records: p.Ports.Records, Vectors: p.Ports.Vectors,
	}
	_, err = desk.Do(ctx, release.Request{
		Action: core.ActionPublish, Index: p.Index, Generation: p.manifest.Generation, Force: p.Force,
		Operator: p.Operator,
	})
	return err
}
