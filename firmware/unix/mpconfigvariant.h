// The Unix port's standard configuration: it has VfsRom, hashlib, uctypes and asyncio.

#define MICROPY_CONFIG_ROM_LEVEL (MICROPY_CONFIG_ROM_LEVEL_EXTRA_FEATURES)
#include "variants/mpconfigvariant_common.h"
