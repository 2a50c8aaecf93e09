// Mutations that know the image format: libFuzzer alone would hardly ever guess a CRC.
#include <sanitizer/asan_interface.h>

#include "fuzz.h"

#define HEADER_SIZE 64
#define ENTRY_SIZE 16
#define MAX_SECTIONS 16

void poison_except(const uint8_t *image, size_t size, const void *keep, size_t keep_size) {
    size_t start = (size_t)((const uint8_t *)keep - image);
    ASAN_POISON_MEMORY_REGION(image, start);
    ASAN_POISON_MEMORY_REGION(image + start + keep_size, size - start - keep_size);
}

void unpoison(const uint8_t *image, size_t size) {
    ASAN_UNPOISON_MEMORY_REGION(image, size);
}

bool find_section(uint8_t *image, size_t size, uint32_t i, uint8_t **section, size_t *section_size) {
    if (size < HEADER_SIZE || i >= get_u32(image + 16) || i >= MAX_SECTIONS || HEADER_SIZE + (i + 1) * ENTRY_SIZE > size) {
        return false;
    }
    const uint8_t *entry = image + HEADER_SIZE + i * ENTRY_SIZE;
    size_t start = get_u32(entry + 4);
    size_t length = get_u32(entry + 8);
    if (start >= size) {
        return false;
    }
    *section = image + start;
    *section_size = length < size - start ? length : size - start;
    return true;
}

void mutate_in_place(uint8_t *data, size_t size, uint32_t *random) {
    if (size == 0) {
        return;
    }
    if (size < 4 || next_random(random) % 2 == 0) {
        LLVMFuzzerMutate(data, size, size);
        return;
    }
    // Numbers at the edges of types and limits, and steps from what is there.
    static const uint32_t interesting[] = {
        0,
        1,
        2,
        3,
        31,
        32,
        33,
        64,
        128,
        255,
        256,
        257,
        512,
        1024,
        16384,
        16385,
        65535,
        65536,
        1u << 20,
        0x3F800000,
        0x7F7FFFFF,
        0x7F800000,
        0x7FC00001,
        0x7FFFFFFF,
        0x80000000,
        0xFF800000,
        0xFFFFFFC0,
        0xFFFFFFFF,
    };
    uint8_t *field = data + next_random(random) % (size / 4) * 4;
    uint32_t value = get_u32(field);
    switch (next_random(random) % 3) {
        case 0:
            value = interesting[next_random(random) % (sizeof(interesting) / sizeof(*interesting))];
            break;
        case 1:
            value += next_random(random) % 9 - 4;
            break;
        default: // another number of the same table
            value = get_u32(data + next_random(random) % (size / 4) * 4);
            break;
    }
    put_u32(field, value);
}

void reseal(uint8_t *image, size_t size) {
    uint8_t *section;
    size_t section_size;
    for (uint32_t i = 0; i < MAX_SECTIONS && find_section(image, size, i, &section, &section_size); i++) {
        uint8_t *entry = image + HEADER_SIZE + i * ENTRY_SIZE;
        put_u32(entry + 12, memcmp(entry, "HASH", 4) == 0 ? 0 : llm_crc32c(0, section, section_size));
    }
    uint32_t n_sections = size < HEADER_SIZE ? MAX_SECTIONS + 1 : get_u32(image + 16);
    if (n_sections <= MAX_SECTIONS && HEADER_SIZE + n_sections * ENTRY_SIZE <= size) {
        put_u32(image + 60, llm_crc32c(llm_crc32c(0, image, 60), image + HEADER_SIZE, n_sections * ENTRY_SIZE));
    }
}
