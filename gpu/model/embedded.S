/* The default model's files, byte for byte. Built where gpu/model/default has them (gpu/CMakeLists.txt). */
.macro embed symbol, file
    .balign 64
    .global \symbol\()_begin
    .global \symbol\()_end
    .hidden \symbol\()_begin
    .hidden \symbol\()_end
\symbol\()_begin:
    .incbin "\file"
\symbol\()_end:
    .byte 0
.endm

    .section .rodata, "a"
    embed godwit_default_config, "config.json"
    embed godwit_default_generation_config, "generation_config.json"
    embed godwit_default_tokenizer, "tokenizer.json"
    embed godwit_default_tokenizer_config, "tokenizer_config.json"
    embed godwit_default_model, "model.safetensors"
    .section .note.GNU-stack, "", %progbits
