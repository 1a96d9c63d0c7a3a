"""transformers: Whisper, small: a spectrogram in, tokens out."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

VOCAB, FRAMES, TOKENS = 2048, 400, 48


def model():
    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=VOCAB,
            num_mel_bins=80,
            d_model=192,
            encoder_layers=3,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=768,
            decoder_ffn_dim=768,
            max_source_positions=FRAMES // 2,
            max_target_positions=TOKENS,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
        )
    )


def batch(n):
    return {
        "input_features": torch.randn(n, 80, FRAMES),
        "labels": torch.randint(4, VOCAB, (n, TOKENS)),
    }


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)
