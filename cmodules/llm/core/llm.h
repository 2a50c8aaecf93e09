// Language models in place from flash: the engine's public interface.
//
// C99, no MicroPython header, no libm, no allocation, no recursion, no global state. The caller
// gives the image (which stays where it is, usually in mapped flash) and one block of RAM; both
// must outlive the model. Nothing here may be called for one model from two threads at once;
// different models are independent.
//
// The image is defined in docs/image-format.md and the arithmetic in docs/arithmetic.md.
#ifndef LLM_H
#define LLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../kernels/types.h"
#include "cache.h"

#define LLM_VERSION "0.1.0"

// ---------------------------------------------------------------------------- errors

typedef enum {
    LLM_OK = 0,
    LLM_ERROR_IMAGE, // the image is not one, is damaged, or needs a later version
    LLM_ERROR_VALUE, // an argument is out of range
    LLM_ERROR_UTF8, // text is not UTF-8
    LLM_ERROR_CONTEXT, // more tokens than the context holds
    LLM_ERROR_MEMORY, // the RAM given is too small
    LLM_ERROR_STORAGE, // a file or block device failed
} llm_status_t;

#define LLM_MESSAGE_SIZE 128

typedef struct {
    llm_status_t status; // what the function returned; not touched by success
    char message[LLM_MESSAGE_SIZE]; // one sentence that names the field or argument, NUL-terminated
} llm_error_t;

// Fills `error` (may be NULL) and returns `status`, so that a caller can `return llm_fail(...)`.
// The message is `what` with each `{}` replaced by the next of `a` and `b` in decimal, cut to fit.
llm_status_t llm_fail(llm_error_t *error, llm_status_t status, const char *what, uint64_t a, uint64_t b);

// ---------------------------------------------------------------------------- source

// One piece of an image to be read.
typedef struct {
    void *data; // where to
    uint64_t offset; // from the image's first byte
    uint32_t size; // bytes
} llm_read_t;

// Reads an image that is not in memory: a file or a block device. Reads return false on failure; they may also not return at all (a
// Python exception): the model is then as if the call that needed them had not begun.
typedef struct {
    void *context; // the first argument of each
    // Reads now. Not called while something is under way.
    bool (*read)(void *context, uint64_t offset, void *data, size_t size);
    // Begins to read `n` pieces, which stay where they are until they are waited for; NULL if this source cannot read while the
    // engine computes. One such call is under way at a time.
    bool (*start)(void *context, const llm_read_t *reads, uint32_t n);
    // Waits until they are read, or failed, and sets `*took` to the microseconds from start to end. NULL if `start` is.
    bool (*wait)(void *context, uint32_t *took);
    // Microseconds since any time, modulo 2^32.
    uint32_t (*now)(void *context);
} llm_source_t;

// ---------------------------------------------------------------------------- image

typedef struct {
    uint32_t vocab_size; // tokens
    uint32_t dim; // width of the residual stream
    uint32_t hidden_dim; // width of the feed-forward block
    uint32_t n_layers; // transformer blocks
    uint32_t n_heads; // query heads
    uint32_t n_kv_heads; // key and value heads, divides n_heads
    uint32_t head_dim; // width of a head, even
    uint32_t context; // positions the model was trained for
    float norm_eps; // added to the mean square in RMSNorm
    float rope_theta; // for people, the angles come from the tensor rope_phase
    llm_rope_t rope; // which elements of a head turn together
    bool tied; // the head is the token embedding
} llm_config_t;

typedef enum {
    LLM_TOKENIZER_SENTENCEPIECE = 1, // byte pairs of characters, joined where the result is a piece
    LLM_TOKENIZER_BPE = 2, // byte pairs of bytes, joined where a table of merges says so
    LLM_TOKENIZER_WORDPIECE = 3, // BERT's: the longest piece that a word begins with, and so on
} llm_tokenizer_kind_t;

// How byte-level BPE cuts text before it merges, by the models that began it. docs/image-format.md has the patterns.
typedef enum {
    LLM_SPLIT_GPT2 = 1,
    LLM_SPLIT_LLAMA3 = 2,
    LLM_SPLIT_QWEN2 = 3,
    LLM_SPLIT_SMOLLM = 4,
} llm_split_t;

// The tokenizer's tables; pointers into the image. Entries are bounded when they are used.
typedef struct {
    llm_tokenizer_kind_t kind; // which of the tables it has
    uint32_t size; // bytes of the section, tables and pieces
    uint32_t n_tokens; // equals vocab_size
    uint32_t n_sorted; // pieces that can be looked up, at most n_tokens
    uint32_t n_specials; // tokens that text can name, at most n_tokens
    uint32_t n_merges; // BPE: entries of merges
    int32_t bos_id; // begin of text, -1 if there is none
    int32_t eos_id; // end of text, -1 if there is none
    int32_t unk_id; // unknown, -1 if there is none
    bool add_bos; // a prompt begins with bos_id
    bool add_space_prefix; // a space is put before text, and dropped again when decoding
    bool byte_fallback; // SentencePiece: a character without a piece becomes byte tokens
    bool cut_at_spaces; // SentencePiece: no piece has a space after another character
    bool ignore_merges; // BPE: what a split gives is not merged if it is a piece already
    bool normalize; // BPE: text is put into normalization form C first
    bool lowercase; // WordPiece: capitals become small letters
    bool strip_accents; // WordPiece: letters lose their accents
    uint32_t tokens_per_byte; // the most that a byte of text can become
    llm_split_t split; // BPE: where text is cut
    uint32_t pieces_size; // bytes of all pieces
    const uint8_t *pieces; // [pieces_size]
    const uint32_t *piece_offsets; // [n_tokens + 1] into pieces
    const uint32_t *ranks; // SentencePiece: [n_tokens] merge priority, lowest first
    const uint8_t *types; // [n_tokens] llm_piece_type_t
    const uint32_t *sorted; // [n_sorted] ids in ascending order of their bytes
    const uint32_t *specials; // [n_specials] ids in ascending order of their bytes
    const uint32_t *byte_ids; // [256] token of each byte, 0xFFFFFFFF if there is none
    const uint32_t *merge_starts; // BPE: [n_tokens + 1] where in merges those with this token on the left begin
    const uint64_t *merges; // BPE: [n_merges] right token << 44 | joined token << 24 | rank, ascending for each left token
} llm_tokenizer_t;

typedef struct {
    const uint8_t *data; // first byte of the image; only its header and section table if it has a source
    uint32_t size; // bytes of the image (total_size), not of what holds it
    const llm_source_t *source; // reads the matrices, NULL if the whole image is in memory
    llm_config_t config; // hyper-parameters
    llm_tokenizer_t tokenizer; // tables
    const uint8_t *directory; // section TDIR
    uint32_t n_tensors; // entries in it
    const uint8_t *tensor_data; // section DATA; only its vectors, one after the other, if the image has a source
    uint32_t tensor_data_offset; // of section DATA in the image
    uint32_t tensor_data_size; // bytes
    const char *card; // section CARD: JSON, not NUL-terminated
    uint32_t card_size; // bytes
    const uint8_t *hash; // section HASH: 32 bytes of SHA-256, names the image
} llm_image_t;

// Opens an image of at most `size` bytes at `data` (a multiple of LLM_ALIGNMENT, stays the caller's).
// Checks the header, the section table, the configuration, the tokenizer's table bounds and every
// tensor's bounds: time in proportion to the number of tensors. `verify` checks the CRC of each section as
// well: time in proportion to the size. LLM_ERROR_IMAGE names the field; `image` is then undefined.
llm_status_t llm_image_open(llm_image_t *image, const void *data, size_t size, bool verify, llm_error_t *error);

// Opens an image of at most `size` bytes behind `source`, which must outlive it. What is not a matrix is read into `ram` (a multiple of
// LLM_ALIGNMENT): at least llm_image_resident says, and more is used to verify in larger pieces. Checks and errors are those of
// llm_image_open; LLM_ERROR_STORAGE if the source failed.
llm_status_t llm_image_open_source(llm_image_t *image, const llm_source_t *source, uint64_t size, bool verify, void *ram, size_t ram_size, llm_error_t *error);

// Sets `*resident` to the bytes of RAM that llm_image_open_source needs. Errors are the same.
llm_status_t llm_image_resident(const llm_source_t *source, uint64_t size, size_t *resident, llm_error_t *error);

// Checks the CRC32C of header and sections of an open image, which may have changed since. An image with a source is read to
// `scratch` (of `scratch_size` bytes, at least 512), piece by piece; others need none. LLM_ERROR_IMAGE names the section.
llm_status_t llm_image_verify(const llm_image_t *image, void *scratch, size_t scratch_size, llm_error_t *error);

// CRC32C (RFC 3720, appendix B.4) of `size` bytes, continuing from `crc` (0 to start).
uint32_t llm_crc32c(uint32_t crc, const void *data, size_t size);

// ---------------------------------------------------------------------------- cores

// Lets a model use other cores: large matrices are divided between them by rows, to the same bits. ports/ports.h makes
// one; all zeros stand for the caller's core alone.
typedef struct llm_parallel {
    uint32_t n_cores; // how many work, the caller's among them; 0 or 1: that one alone
    uint32_t min_macs; // multiplications of the smallest product worth waking the others for
    // Calls work(argument, core) for each core from 0 to n_cores - 1, 0 on the caller's and all at once if it can, and
    // returns when all are done. `work` does not block, and needs less than 1 KB of stack.
    void (*run)(const struct llm_parallel *parallel, void (*work)(void *argument, uint32_t core), void *argument);
} llm_parallel_t;

// ---------------------------------------------------------------------------- model

typedef enum {
    LLM_CACHE_AUTO = 0, // f32 if every matrix of the image is f32, else int8
    LLM_CACHE_INT8 = 1, // a scale a token and head
    LLM_CACHE_F32 = 2, // exact, four times the size
    LLM_CACHE_INT4 = 3, // int8 until a page is full, then half of that
} llm_cache_t;

typedef enum {
    LLM_LAYOUT_AUTO = 0, // static up to LLM_STATIC_CONTEXT positions, where nothing asks for pages
    LLM_LAYOUT_STATIC = 1, // one page of the whole context
    LLM_LAYOUT_PAGED = 2, // pages of LLM_PAGE positions
} llm_layout_t;

#define LLM_STATIC_CONTEXT 512

// What happens to a token for which the context has no room.
typedef enum {
    LLM_POLICY_SLIDE = 0, // the oldest token but the first LLM_SINKS falls out (Xiao et al., 2023)
    LLM_POLICY_ERROR = 1, // LLM_ERROR_CONTEXT
    LLM_POLICY_COMPRESS = 2, // old pages are compressed to make room for more positions in the same RAM; then as SLIDE
} llm_policy_t;

// A region that full old pages move to when the RAM has no more room.
typedef struct {
    void *memory; // slower RAM, a multiple of LLM_ALIGNMENT, read in place; NULL: `store`
    llm_store_t store; // a file or block device from offset 0 on
    uint64_t size; // bytes of it; 0: there is none
} llm_spill_t;

// ---- weights that are not mapped

#define LLM_STREAM_MAX 131072 // most bytes of codes that are read at once

// Reads the matrices of an image in the order in which a token needs them: a *range* of tiles is computed while the next one is read.
// Fields from `latency` on are for reading.
typedef struct {
    const llm_source_t *source; // NULL: the weights are in memory
    uint8_t *codes[2]; // [codes_size] codes or values of a range each, in turn
    uint8_t *scales[2]; // [scales_size] row scales and group scales of a strip each, in turn: tiles of as many ranges as fit
    uint32_t codes_size; // bytes
    uint32_t scales_size; // bytes
    uint32_t n_matrices; // that this block of tokens needs
    uint32_t matrix; // of the next range to read, counted in their order
    uint32_t tile; // its first
    uint32_t strip_first; // first tile of the strip whose scales are there
    uint32_t strip_end; // the tile after its last
    uint32_t turn; // bit 0: codes to fill next; bit 1: scales that are filled
    llm_tensor_t range; // what was read last
    llm_read_t reads[3]; // the pieces of it
    uint32_t n_reads; // how many
    bool under_way; // they are being read, or have been by a source that cannot do it in the background
    uint32_t took; // us, by such a source
    bool failed; // they cannot be; the rest of the block is not computed
    uint32_t began; // when the block did
    float latency; // of a read, us: a mean of the last ones, 0 before the first
    float rate; // of the rest of it, bytes a us
    uint32_t range_size; // bytes of codes that the next range should have
    uint64_t bytes; // read since the model was made
    uint64_t waited; // us spent waiting for them, or reading if the source cannot do both at once
    uint64_t total; // us that the blocks took
} llm_stream_t;

typedef struct {
    uint32_t context; // positions to make room for; 0: as many as the model was trained for
    uint32_t block; // tokens of a prompt computed together, 1 to LLM_MAX_BLOCK; 0: 8
    uint32_t sequences; // beside the main one, at most LLM_MAX_SEQUENCES
    uint32_t batch; // of these, whose logits there is room for at once; 0: 1
    llm_cache_t cache; // how keys and values are kept
    llm_layout_t layout; // where
    llm_policy_t policy; // when the context is full
    size_t ram; // bytes that the model may take; 0: as many as it needs
    llm_spill_t spill; // where pages go that the RAM has no room for
    uint32_t stream; // of an image with a source: most bytes of codes read at once, at most LLM_STREAM_MAX; 0: 32 KB
    const llm_kernels_t *kernels; // NULL: the best
    llm_parallel_t parallel; // the cores to use
} llm_options_t;

#define LLM_MAX_SEQUENCES 255

// Where the RAM of a model goes, in bytes, each part rounded up to LLM_ALIGNMENT.
typedef struct {
    uint32_t context; // positions a token sees at most
    uint32_t block; // tokens computed together
    uint32_t sequences; // beside the main one
    uint32_t batch; // rows of logits
    llm_cache_t cache; // LLM_CACHE_INT8, LLM_CACHE_F32 or LLM_CACHE_INT4
    llm_layout_t layout; // LLM_LAYOUT_STATIC or LLM_LAYOUT_PAGED
    llm_policy_t policy; // as asked for
    uint32_t page; // positions of a page
    uint32_t table; // pages of a sequence
    uint32_t n_units; // of the pool, in RAM
    uint32_t n_spill; // of the pool, in the slower region
    size_t tensors; // table of pointers to the tensors
    size_t sequence_tables; // sequences, and what page is where
    size_t kv; // the pool, n_units equal parts: keys, values and their scales
    size_t activations; // everything between the embedding and the logits
    size_t logits; // batch times one float a token of the vocabulary
    size_t tokens; // ids of what is in the cache
    size_t stream; // buffers of an image with a source
    uint32_t stream_codes; // bytes of codes in each of two of them
    uint32_t stream_scales; // bytes of scales in each of two others
    size_t total; // the sum: what llm_model_init needs
} llm_plan_t;

// Computes what a model needs. `options` may be NULL for the defaults. LLM_ERROR_VALUE if an option is out of
// range or no address space holds the sum; LLM_ERROR_MEMORY if options->ram is less than the least that will do: the message has
// both numbers and the contexts that would fit.
llm_status_t llm_plan(const llm_image_t *image, const llm_options_t *options, llm_plan_t *plan, llm_error_t *error);

// The tensors of one transformer block.
typedef struct {
    const float *attn_norm; // [dim]
    const float *ffn_norm; // [dim]
    llm_tensor_t attn_q; // [n_heads * head_dim, dim]
    llm_tensor_t attn_k; // [n_kv_heads * head_dim, dim]
    llm_tensor_t attn_v; // [n_kv_heads * head_dim, dim]
    llm_tensor_t attn_output; // [dim, n_heads * head_dim]
    llm_tensor_t ffn_gate; // [hidden_dim, dim]
    llm_tensor_t ffn_up; // [hidden_dim, dim]
    llm_tensor_t ffn_down; // [dim, hidden_dim]
} llm_layer_t;

// A token that is being evaluated.
typedef struct {
    llm_sequence_t *sequence; // that it joins
    uint32_t token; // id
    uint32_t pos; // position in the sequence
    uint32_t first; // oldest token that it sees after the sinks
} llm_item_t;

// A block of tokens on its way through the model.
typedef struct {
    llm_item_t items[LLM_MAX_BLOCK]; // the tokens
    uint32_t n; // how many, 0: no block is under way
    uint32_t n_logits; // of the last of them the logits are wanted
    uint32_t part; // what comes next: of layer l part 2l is attention, 2l + 1 the feed-forward block, then rows of the logits
} llm_work_t;

// A model: an image and its working memory. Fields are for reading; functions change them.
typedef struct {
    llm_image_t image; // what it runs
    llm_plan_t plan; // how its RAM is divided
    const llm_kernels_t *kernels; // what it runs on
    llm_parallel_t parallel; // and the cores
    llm_stream_t *stream; // where its matrices come from, NULL if they are in memory
    llm_tensor_t token_embd; // [vocab_size, dim]
    llm_tensor_t output; // [vocab_size, dim], token_embd if tied
    const float *output_norm; // [dim]
    const uint32_t *rope_phase; // [head_dim / 2] turns a position, times 2^32
    llm_layer_t *layers; // [n_layers]
    llm_kv_t kv; // the cache; kv.sequences[0] is the main sequence
    float *x; // [block][dim] residual stream
    float *h; // [block][max(dim, n_heads * head_dim)] a norm's or the attention's output
    float *q; // [block][max(dim, n_heads * head_dim)] queries, then the attention block's output
    float *k; // [block][n_kv_heads * head_dim] keys, before they are stored
    float *v; // [block][n_kv_heads * head_dim] values, before they are stored
    float *q_sinks; // [n_heads * head_dim] one token's queries as the sinks see them, and [head_dim] their cosines and sines
    float *q_page; // [n_heads / n_kv_heads][head_dim] one KV head's queries as a compressed page sees them
    float *gate; // [block][hidden_dim]; gate and up lie where q, k, v and so on do, they take turns
    float *up; // [block][hidden_dim]
    void *codes; // [block][codes_stride] the input of a quantized matrix, in the kernels' own form
    float *code_scales; // [block] one scale a vector of codes
    uint32_t codes_stride; // codes between two vectors of them, a multiple of 32
    float *cos_sin; // [block][head_dim] cosines, then sines, of head_dim / 2 pairs
    void *scratch; // attention scores of one KV head's queries
    float *logits; // [batch][vocab_size]; llm_sequence_t.row says whose, llm_sequence_sample consumes them
    llm_work_t work; // the block that x, cos_sin and codes are about
} llm_model_t;

// Makes a model of an open image in `ram` (a multiple of LLM_ALIGNMENT, `ram_size` bytes, stays the caller's).
// `options` may be NULL. LLM_ERROR_MEMORY says how much is needed and given.
llm_status_t llm_model_init(llm_model_t *model, const llm_image_t *image, const llm_options_t *options, void *ram, size_t ram_size, llm_error_t *error);

// Appends `n` tokens to the main sequence, whose logits are then those of the last one. Errors as llm_sequence_eval. n = 0 does
// nothing.
llm_status_t llm_model_eval(llm_model_t *model, const uint32_t *tokens, size_t n, llm_error_t *error);

// The first block of the same for any sequence, for a caller that has other things to do in between: checks all `n` tokens,
// appends at most plan.block of them, sets `*done` to how many, and leaves logits only if that was all. Call it again with
// the rest, also if `*done` is 0: then tokens came first that a rewind had left without keys and values.
//
// LLM_ERROR_VALUE if a token is not below vocab_size, LLM_ERROR_CONTEXT if they do not fit and the policy is to say so,
// LLM_ERROR_MEMORY if other sequences hold the pool, LLM_ERROR_STORAGE if the spill region failed. Nothing is appended then.
llm_status_t llm_sequence_eval(llm_model_t *model, llm_sequence_t *sequence, const uint32_t *tokens, size_t n, size_t *done, llm_error_t *error);

// A part of the same, for a caller that cannot wait so long: attention or the feed-forward block of one layer, or as many rows of the
// logits as a feed-forward block is wide. `*done` is 0 until the block is through: call it again with the same arguments. If anything
// but llm_sequence_sample is done with the model meanwhile, the block is lost and begins again. The same bits.
llm_status_t llm_sequence_eval_part(llm_model_t *model, llm_sequence_t *sequence, const uint32_t *tokens, size_t n, size_t *done, llm_error_t *error);

// Appends tokens[i] to sequences[i] for i < n, all of them different, n at most plan.batch; each has its logits then. The same bits as
// one after the other. `*done` is false if something else came first (as above): call it again. Errors as llm_sequence_eval,
// LLM_ERROR_VALUE if a sequence occurs twice or there are too many.
llm_status_t llm_model_eval_batch(llm_model_t *model, llm_sequence_t *const *sequences, const uint32_t *tokens, size_t n, bool *done, llm_error_t *error);

// Keeps the first `n` tokens of a sequence and forgets the rest; the logits are gone. LLM_ERROR_VALUE if n is more than n_tokens, or
// they have fallen out: once the window has slid, n must be at most plan.sinks or where the window begins.
llm_status_t llm_sequence_rewind(llm_model_t *model, llm_sequence_t *sequence, uint32_t n, llm_error_t *error);

// Keeps what a sequence and `tokens` [n] begin with in common, but less than n, and forgets the rest. Returns how many tokens that is:
// llm_sequence_eval of the others leaves what it would have left in an empty sequence.
uint32_t llm_sequence_reuse(llm_model_t *model, llm_sequence_t *sequence, const uint32_t *tokens, size_t n);

// Opens a sequence, empty, or NULL if all are in use; closes one that is not the main one.
llm_sequence_t *llm_sequence_open(llm_model_t *model);
void llm_sequence_close(llm_model_t *model, llm_sequence_t *sequence);

// Makes `sequence`, whatever it held, a copy of `from`, without logits. They share pages until one of them writes. Time in proportion
// to the context's ids.
void llm_sequence_fork(llm_model_t *model, llm_sequence_t *sequence, const llm_sequence_t *from);

// The logits [vocab_size] of the last token of a sequence, NULL if there are none.
float *llm_sequence_logits(const llm_model_t *model, const llm_sequence_t *sequence);

// How many ids of a sequence are in the cache, and the `i`-th of them: the sinks, then what is in the window.
uint32_t llm_sequence_n_cached(const llm_model_t *model, const llm_sequence_t *sequence);
uint32_t llm_sequence_token(const llm_model_t *model, const llm_sequence_t *sequence, uint32_t i);

// Writes the tokens of a sequence with their keys and values to a store, from offset 0 on, in pieces of up to 256 bytes: the state
// that llm_sequence_load reads into a sequence of any model of the same image and the same kind of cache, in which they fit
// (docs/state-format.md). LLM_ERROR_STORAGE if the store fails.
llm_status_t llm_sequence_save(llm_model_t *model, const llm_sequence_t *sequence, const llm_store_t *store, llm_error_t *error);

// Replaces what a sequence holds, and has no logits then. LLM_ERROR_VALUE if the state is damaged, cut short, of another model or
// does not fit; LLM_ERROR_STORAGE if the store fails; LLM_ERROR_MEMORY if other sequences hold the pool: the sequence is empty
// then. If the store does not return, llm_sequence_rewind to 0 has to come next.
llm_status_t llm_sequence_load(llm_model_t *model, llm_sequence_t *sequence, const llm_store_t *store, llm_error_t *error);

// What happened for want of room.
typedef enum {
    LLM_EVENT_NONE = 0,
    LLM_EVENT_SLIDE, // tokens fell out of the window
    LLM_EVENT_COMPRESS, // full pages were compressed to 4 bits
    LLM_EVENT_SPILL, // full pages moved to the slower region
} llm_event_t;

// The next kind of event since the last call that returned it, and in `*n` how many tokens or pages it was.
llm_event_t llm_model_event(llm_model_t *model, uint32_t *n);

// Memory that is free between two calls: `*size` bytes at a multiple of LLM_ALIGNMENT, for llm_encode for instance. The next eval,
// rewind or sample overwrites it.
void *llm_model_scratch(llm_model_t *model, size_t *size);

// ---------------------------------------------------------------------------- sampler

typedef struct {
    float temperature; // 0 (below 0.001): the likeliest token; at most 100
    uint32_t top_k; // keep the k likeliest; 0: all
    float top_p; // keep the likeliest that sum to this share, above 0 to 1; 1: all
    float min_p; // keep those at least this share of the likeliest, 0 to 1; 0: all
    float repetition_penalty; // above 0, at most 100; 1: none (Keskar et al., 2019)
    uint32_t repeat_last_n; // tokens it looks back on, at most 4096
    uint64_t state; // of SplitMix64 (Steele et al., 2014): set it to the seed
} llm_sampler_t;

// Checks a sampler's settings. LLM_ERROR_VALUE names the setting; NaN is out of range.
llm_status_t llm_sampler_check(const llm_sampler_t *sampler, llm_error_t *error);

// Chooses the next token from `logits` [n], which it overwrites. `recent` [n_recent] are the tokens before it, for
// the repetition penalty. The settings must have passed llm_sampler_check; n >= 1.
uint32_t llm_sample(llm_sampler_t *sampler, float *logits, uint32_t n, const uint32_t *recent, uint32_t n_recent);

// The same from the logits of a sequence and its tokens in the cache. LLM_ERROR_VALUE if it has no logits.
llm_status_t llm_sequence_sample(llm_model_t *model, llm_sequence_t *sequence, llm_sampler_t *sampler, uint32_t *token, llm_error_t *error);

// ---------------------------------------------------------------------------- tokenizer

typedef enum {
    LLM_PIECE_NORMAL = 1,
    LLM_PIECE_UNKNOWN = 2,
    LLM_PIECE_CONTROL = 3,
    LLM_PIECE_BYTE = 4,
    LLM_PIECE_USER = 5, // text that is always this one token
} llm_piece_type_t;

// Bytes of scratch that llm_encode needs for `text`: 37 for each byte of the longest run that is merged as one (a
// word with the spaces before it where the tokenizer can cut there, else the whole text), and about twice that for a word that has to be
// normalized. Nothing for what is not UTF-8, which llm_encode refuses.
size_t llm_encode_scratch(const llm_tokenizer_t *tokenizer, const char *text, size_t size, bool special);

// Encodes `size` bytes of UTF-8 into at most `max_tokens` ids and sets `*n_tokens` to their number (at most
// tokens_per_byte * size + 1, plus 1 for `bos`). `bos` puts bos_id first, if there is one. `special`: where the text has the name of a control token ("<|im_end|>"),
// that is the token; else it is text like any other, which is what text from outside should be. `scratch` is 4-byte aligned. Time n
// log n in the longest run.
// LLM_ERROR_UTF8 names the offset of the first bad byte; LLM_ERROR_MEMORY if the scratch or LLM_ERROR_VALUE if
// `max_tokens` is too small.
llm_status_t llm_encode(const llm_tokenizer_t *tokenizer, const char *text, size_t size, bool bos, bool special, uint32_t *tokens, size_t max_tokens, size_t *n_tokens, void *scratch, size_t scratch_size, llm_error_t *error);

// The bytes of a token as they appear in text (not NUL-terminated, in the image; nothing for control tokens, one byte
// for a byte token). Sets `*size`; an id past the end has none.
const uint8_t *llm_piece(const llm_tokenizer_t *tokenizer, uint32_t id, uint32_t *size);

// ---------------------------------------------------------------------------- text

// Turns bytes that arrive in pieces into whole UTF-8 characters. What is not UTF-8 becomes U+FFFD, one for each
// maximal part of a sequence (The Unicode Standard, 3.9; as Python's errors="replace").
typedef struct {
    uint8_t pending[4]; // start of an incomplete character
    uint8_t n_pending; // bytes of it, 0 to 3
} llm_utf8_t;

// Most bytes that llm_utf8_feed writes for `size` bytes, and llm_utf8_finish for 0.
#define LLM_UTF8_MAX(size) (3 * (size) + 3)

// Takes `size` bytes, writes the characters they complete to `out` (LLM_UTF8_MAX(size) bytes) and returns how many bytes
// that is.
size_t llm_utf8_feed(llm_utf8_t *utf8, const uint8_t *bytes, size_t size, uint8_t *out);

// Ends the text: an incomplete character becomes one U+FFFD. Returns the bytes written to `out`, 0 or 3.
size_t llm_utf8_finish(llm_utf8_t *utf8, uint8_t *out);

// Which escape sequences of a text may pass.
typedef enum {
    LLM_ANSI_NONE = 0, // none, nor any control character but line feed and tab
    LLM_ANSI_COLOR = 1, // colours and styles (SGR: CSI, digits ; : and m)
    LLM_ANSI_RAW = 2, // all of them, and all control characters
} llm_ansi_t;

// Bytes of an escape sequence that are held until it is whole.
#define LLM_SEQUENCE_HELD 64

// Bytes after which an escape sequence that has not ended is given up: what follows is text again.
#define LLM_SEQUENCE_LIMIT 256

// Text for a terminal: whole characters, as llm_utf8_t makes them, and of the escape sequences of ECMA-48 those that may pass,
// however both are split over calls. Set `ansi`, all else to zero.
//
// With LLM_ANSI_NONE and LLM_ANSI_COLOR every control character (C0, DEL, C1 as U+0080 to U+009F) is removed but line feed and
// tab, and so is what belongs to a sequence: CSI up to its final character; OSC, DCS, SOS, PM and APC up to ST or BEL; ESC with
// the one character after it and the intermediates before that. A sequence that CAN, SUB, another sequence, a character beyond
// ASCII or LLM_SEQUENCE_LIMIT breaks off is removed as far as it came. A terminal that reads UTF-8 can only print the output of
// LLM_ANSI_NONE. SGR passes with LLM_ANSI_COLOR if it is at most LLM_SEQUENCE_HELD bytes long, in one call's output.
//
// LLM_ANSI_RAW passes everything. A sequence of at most LLM_SEQUENCE_HELD bytes is in one call's output.
typedef struct {
    llm_utf8_t utf8; // the incomplete character
    llm_ansi_t ansi; // what may pass
    uint8_t state; // where in a sequence the next character stands, 0: in none
    uint8_t n_held; // bytes of `held`
    uint8_t held[LLM_SEQUENCE_HELD]; // the sequence so far, if it may pass
    uint16_t n_sequence; // bytes of the sequence so far
    bool color_open; // the last SGR that passed was not a reset
} llm_text_t;

// Most bytes that llm_text_feed writes for `size` bytes, and llm_text_finish for 0.
#define LLM_TEXT_MAX(size) (LLM_UTF8_MAX(size) + LLM_SEQUENCE_HELD)

// Takes `size` bytes and writes what of them may pass to `out` (LLM_TEXT_MAX(size) bytes), whole characters and sequences.
// Returns how many bytes that is.
size_t llm_text_feed(llm_text_t *text, const uint8_t *bytes, size_t size, uint8_t *out);

// Ends the text: an incomplete character becomes one U+FFFD. An incomplete sequence is removed and colour that is open is
// reset, unless all is to pass. Returns the bytes written to `out`. The next byte begins a new text.
size_t llm_text_finish(llm_text_t *text, uint8_t *out);

// The offset of the first byte of `text` that is not UTF-8, or `size` if all of it is.
size_t llm_utf8_check(const char *text, size_t size);

#endif
