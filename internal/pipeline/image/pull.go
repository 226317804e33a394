package image

import (
	"context"
	"errors"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
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

// pull is an image on its way into an index.
type pull struct {
	*Mover
	place     *oci.Place
	index     artifact.Index
	image     *Image
	manifest  *core.Manifest // of the image, and once it is adapted of the index
	sha       string         // of the adapted one
	spec      core.Spec
	current   core.Pointer
	served    *core.Manifest // nil: none
	pulled    core.PulledGenerations
	unchanged bool // it serves the image, or an operator rolled it back and it is only adopted
	holder    run.Holder
	fence     int64
}

// pull makes an index serve an image. Files that are there are not fetched, so that the same call goes on with a pull
// that ended early. Nothing is served before all files are proven and the stores are filled.
func (m *Mover) pull(ctx context.Context) (out core.Transfer, err error) {
	p := &pull{Mover: m, index: artifact.Index{Store: m.Ports.Artifacts, Name: m.Index}}
	if p.place, err = m.open(ctx); err != nil {
		return out, err
	}
	if p.image, err = m.read(ctx, p.place); err != nil {
		return out, err
	}
	p.manifest = p.image.Manifest
	if err := readTable(ctx, p.place, p.image.named[specName(p.manifest)], mostConfig, &p.spec); err != nil {
		return out, err
	}
	if why := p.spec.CheckQueries(); why != "" {
		return out, fault.InvalidParam.At("read image", p.place.Address).Because(why)
	}
	err = p.runLeased(ctx, p.fill)
	out = m.describe(p.image, p.place)
	out.Unchanged, out.Adopted = p.unchanged, p.pulled[p.sha].Adopted
	if p.unchanged {
		out.Generation = p.current.Generation
	}
	return out, err
}

// runLeased does something while this process holds the lease of the index: no build begins meanwhile.
func (p *pull) runLeased(ctx context.Context, do func(context.Context) error) (err error) {
	p.holder = run.Holder{
		Workflow: "build/" + p.Index + "/" + run.PullGeneration + time.Now().UTC().Format("20060102t150405z"),
		Run:      uuid.NewString(), Heartbeat: heartbeat,
	}
	if p.fence, err = run.TakeLease(ctx, p.index, p.holder, p.Standings); err != nil {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		for retry.Wait(held, heartbeat/4) == nil {
			if err := run.HoldLease(held, p.index, p.holder, p.fence); fault.Is(err, fault.LeaseLost) {
				lose(err)
			}
		}
	})
	err = do(held)
	if cause := context.Cause(held); err != nil && cause != nil {
		err = cause
	}
	lose(context.Canceled)
	beating.Wait()
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeat/2)
	defer cancel()
	return errors.Join(err, run.GiveLease(back, p.index, p.holder))
}

// fill fetches what is missing, fills the stores and serves the generation.
func (p *pull) fill(ctx context.Context) error {
	if err := p.checkIndex(ctx); err != nil || p.unchanged {
		return err
	}
	if err := p.refuseErased(ctx); err != nil {
		return err
	}
	if err := p.fetchFiles(ctx, p.image.files); err != nil {
		return err
	}
	if err := p.checkRows(ctx); err != nil {
		return err
	}
	proven, err := p.fillStores(ctx)
	if err != nil {
		return err
	}
	if err := run.HoldLease(ctx, p.index, p.holder, p.fence); err != nil {
		return err
	}
	p.pulled[p.sha] = core.Pulled{
		From: p.place.Address, Digest: p.image.Descriptor.Digest.String(), At: time.Now().UTC(), Adopted: p.Adopt,
	}
	if err := p.writePulled(ctx); err != nil {
		return err
	}
	if err := p.serve(ctx); err != nil {
		return err
	}
	proven.Manifest = p.sha
	_, err = blob.WriteJSON(ctx, p.index.Store, unit.ProvenKey(p.index), proven, blob.Cond{})
	return err
}

// writePulled writes pulled.json. With Adopt, builds may change every generation in it.
func (p *pull) writePulled(ctx context.Context) error {
	for sha, one := range p.pulled {
		one.Adopted = one.Adopted || p.Adopt
		p.pulled[sha] = one
	}
	_, err := blob.WriteJSON(ctx, p.index.Store, p.index.PulledKey(), p.pulled, blob.Cond{})
	return err
}

// checkIndex refuses to replace an index that is not a copy of this one.
func (p *pull) checkIndex(ctx context.Context) error {
	refused := fault.Usage.At("pull into", p.Index)
	base, err := p.index.FindBase(ctx)
	if err != nil {
		return err
	}
	if base.Name != p.Index {
		return refused.Because("it is a branch of " + base.Name).Advise("choose another name")
	}
	if p.current, _, err = p.index.ReadPointer(ctx); err != nil {
		return err
	}
	if p.pulled, err = run.ReadPulled(ctx, p.index); err != nil {
		return err
	}
	corpus := p.spec.Corpus
	ref, err := p.adapt(ctx)
	if err != nil || p.current.Generation == "" {
		return err
	}
	copied, isCopy := p.pulled[p.current.Manifest]
	begun, err := release.BegunToPublish(ctx, p.index, p.manifest.Generation, ref)
	if err != nil {
		return err
	}
	rolled := ref.State == core.GenerationPublished && !begun
	if p.unchanged = p.current.Manifest == p.sha || rolled && isCopy && p.Adopt; p.unchanged {
		return p.writePulled(ctx)
	}
	if rolled {
		return refused.Because("it has generation " + p.manifest.Generation + " already").
			Advise("serve it again: unweaver rollback " + p.Index + " " + p.manifest.Generation)
	}
	if p.served, err = p.index.Manifest(ctx, p.current.Manifest); err != nil {
		return err
	}
	spec, err := p.index.Spec(ctx, p.served.Spec)
	if err != nil || p.Force {
		return err
	}
	switch {
	case !isCopy || copied.Adopted:
		refused = refused.Because("the index is built here")
	case spec.Corpus != corpus:
		refused = refused.Because("it is built from " + spec.Corpus + ", the image from " + corpus)
	case p.served.Labelled && !p.manifest.Labelled:
		refused = refused.Because("its documents have labels, those of the image have none: everybody could read all of them")
	default:
		return nil
	}
	return refused.
		Advise("choose another name; or add --force, which replaces what it serves: a rollback brings it back")
}

// collection is what the name of a collection ends with, after its store and index.
var collection = regexp.MustCompile(`(classes|chunks)_[0-9a-f]{8}_[0-9]{1,9}$`)

// adapt makes the manifest one of this store and index, and what is served now its parent, and stores it: nothing names
// it yet. An image brings no rights: its corpus is not used (core.Spec.Pulled), no links are followed, and settings of
// a branch at the origin, which would go before the configuration of this place, are dropped, as are limits of
// endpoints, which other indexes share. It returns the reference of that generation, if the index has it, and refuses
// one with other content.
func (p *pull) adapt(ctx context.Context) (ref core.GenerationRef, err error) {
	m := p.manifest
	if _, err := p.index.Store.Stat(ctx, p.index.CollectedKey(m.Generation)); err == nil {
		return ref, fault.GenCollected.At("pull generation", m.Generation).
			Because("index " + p.Index + " had it, and deleted it").
			Advise("pull a newer image, or into an index of another name")
	} else if !fault.Is(err, fault.NotFound) {
		return ref, err
	}
	for _, name := range []*string{&m.Collections.Classes, &m.Collections.Chunks} {
		rest := collection.FindString(*name)
		if rest == "" {
			return ref, fault.InvalidParam.At("read image", p.place.Name).
				Because("it names a collection " + fault.QuoteName(*name))
		}
		*name = core.CollectionPrefix(p.Ports.StoreID, p.Index) + rest
	}
	p.spec.Index, p.spec.Overlay, p.spec.FollowLinks, p.spec.Pulled = p.Index, nil, false, true
	p.spec.Limits, p.spec.Chat.Limits = core.Limits{}, core.Limits{}
	for role, chat := range p.spec.Roles {
		chat.Limits = core.Limits{}
		p.spec.Roles[role] = chat
	}
	m.Index, m.Family, m.Store, m.Parent = p.Index, "", p.Ports.StoreID, p.current.Manifest
	if m.Spec, err = p.index.PutSpec(ctx, p.spec); err != nil {
		return ref, err
	}
	ref, err = p.index.GenerationRef(ctx, m.Generation)
	if fault.Is(err, fault.UnknownGen) {
		m.Seq, err = publish.NextSeq(ctx, p.index)
	} else if err == nil {
		var there *core.Manifest
		if there, err = p.index.Manifest(ctx, ref.Manifest); err == nil {
			m.Parent, m.Seq = there.Parent, there.Seq
		}
	}
	if err != nil {
		return ref, err
	}
	p.sha, err = p.index.PutManifest(ctx, m)
	if err == nil && ref.Manifest != "" && ref.Manifest != p.sha {
		err = fault.Usage.At("pull into", p.Index).
			Because("it has another generation " + m.Generation + ", which is " + ref.State).
			Advise("choose another name for the index")
	}
	return ref, err
}

// refuseErased refuses an image with documents that were purged from the index. It fetches only their list.
func (p *pull) refuseErased(ctx context.Context) error {
	all, err := purges.List(ctx, p.index)
	if err != nil {
		return err
	}
	excluded, _ := purges.ListExcluded(all)
	if excluded.IsEmpty() {
		return nil
	}
	var lists []ocispec.Descriptor
	for _, segment := range p.manifest.Segments.Documents {
		lists = append(lists, p.image.named["segments/"+segment.SHA256])
	}
	if err := p.fetchFiles(ctx, lists); err != nil {
		return err
	}
	found, err := excluded.IsIn(ctx, p.index, p.manifest, func() {})
	if err == nil && found {
		err = fault.Usage.At("pull into", p.Index).
			Because("the image has documents that were purged from the index").
			Advise("purge them at its origin and push again; to see them: unweaver purge list " + p.Index)
	}
	return err
}

// fetchFiles fetches the files that the index lacks. What a segment has was proven before it was stored: its size is
// trusted.
func (p *pull) fetchFiles(ctx context.Context, files []ocispec.Descriptor) error {
	sizes, err := unit.StoredSizes(ctx, p.index, func() {})
	if err != nil {
		return err
	}
	p.beginStage(p.Action, p.image.bytes)
	return parallel.Each(ctx, len(files), width, func(ctx context.Context, i int) error {
		file, key := files[i], keyOf(p.Index, files[i])
		there := sizes[file.Digest.Encoded()] == file.Size
		if key != p.index.SegmentKey(file.Digest.Encoded()) {
			found, err := describeFile(ctx, p.index.Store, key)
			if there = found.Digest == file.Digest; err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		if there {
			p.count(file.Size, 0)
			return nil
		}
		err := p.place.Fetch(ctx, file, func(in io.Reader) error {
			_, err := p.index.Store.Put(ctx, key, metered{in, p.Mover}, file.Size, blob.Cond{})
			return err
		})
		if err == nil {
			p.count(0, file.Size)
		}
		return err
	})
}

// fillStores writes the records and vectors that the generation names, as a restore does, and returns who the stores
// were before. What the served generation has in them is left out, unless they lost it.
func (p *pull) fillStores(ctx context.Context) (proven run.Proven, err error) {
	work := release.OpenBare(p.Ports, run.Job{
		Index: p.Index, Generation: p.manifest.Generation, Fence: p.fence, Holder: p.holder,
	}, core.TransferPull, "pull")
	defer work.Close()
	collections := p.manifest.Collections
	filled := map[string]bool{}
	if p.served != nil && p.served.Collections == collections {
		lost, err := unit.StoresLost(ctx, p.index, p.Ports.Records, p.Ports.Vectors, p.served)
		if err != nil {
			return proven, err
		}
		for _, segment := range p.served.Segments.All() {
			filled[segment.SHA256] = !lost
		}
	}
	if err := work.ReopenVectors(ctx, collections); err != nil {
		return proven, err
	}
	if proven, err = work.CreateCollections(ctx, p.manifest); err != nil {
		return proven, err
	}
	var parts []run.Part
	var bytes int64
	for _, part := range unit.PartsOf("", p.manifest) {
		if part.Check == run.CheckStore && !filled[part.Unit.Segment.SHA256] {
			parts, bytes = append(parts, part), bytes+part.Unit.Segment.Bytes
		}
	}
	p.beginStage("restore", bytes)
	if err := parallel.Each(ctx, len(parts), repairs, func(ctx context.Context, i int) error {
		_, err := work.RepairPart(ctx, p.manifest, parts[i])
		p.count(parts[i].Unit.Segment.Bytes, 0)
		return err
	}); err != nil {
		return proven, err
	}
	if sealer, ok := vectors.As[vectors.Sealer](p.Ports.Vectors); ok {
		err = errors.Join(sealer.Seal(ctx, collections.Classes), sealer.Seal(ctx, collections.Chunks))
	}
	return proven, err
}

// serve has the desk of releases publish the generation, whose reference is held until then.
func (p *pull) serve(ctx context.Context) error {
	if _, err := publish.Store(ctx, p.index, p.manifest, core.GenerationHeld); err != nil {
		return err
	}
	if p.Operator.Reason == "" {
		p.Operator.Reason = "pulled from " + p.place.Address + ", " + p.image.Descriptor.Digest.String()
	}
	desk := &release.Desk{
		Artifacts: p.Ports.Artifacts, Mirror: p.Ports.Coordination, Records: p.Ports.Records, Vectors: p.Ports.Vectors,
	}
	_, err := desk.Do(ctx, release.Request{
		Action: core.ActionPublish, Index: p.Index, Generation: p.manifest.Generation, Force: p.Force,
		Operator: p.Operator,
	})
	return err
}
