"""Audio: mel-frequency cepstral coefficients, and a pitch by autocorrelation."""

import numpy as np
from scipy.fftpack import dct
from scipy.signal import get_window, lfilter


def hz2mel(hz):
    return 2595 * np.log10(1 + hz / 700.0)


def mel2hz(mel):
    return 700 * (10 ** (mel / 2595.0) - 1)


def get_filterbanks(nfilt=12, nfft=256, samplerate=8000, lowfreq=0, highfreq=None):
    highfreq = highfreq or samplerate / 2
    lowmel = hz2mel(lowfreq)
    highmel = hz2mel(highfreq)
    melpoints = np.linspace(lowmel, highmel, nfilt + 2)
    bin = np.floor((nfft + 1) * mel2hz(melpoints) / samplerate)
    fbank = np.zeros([nfilt, nfft // 2 + 1])
    for j in range(nfilt):
        for i in range(int(bin[j]), int(bin[j + 1])):
            fbank[j, i] = (i - bin[j]) / (bin[j + 1] - bin[j])
        for i in range(int(bin[j + 1]), int(bin[j + 2])):
            fbank[j, i] = (bin[j + 2] - i) / (bin[j + 2] - bin[j + 1])
    return fbank


def framesig(sig, frame_len, frame_step, winfunc=np.hamming):
    slen = len(sig)
    numframes = 1 + int(np.ceil((1.0 * slen - frame_len) / frame_step))
    padlen = int((numframes - 1) * frame_step + frame_len)
    zeros = np.zeros((padlen - slen,))
    padsignal = np.concatenate((sig, zeros))
    indices = (
        np.tile(np.arange(0, frame_len), (numframes, 1))
        + np.tile(np.arange(0, numframes * frame_step, frame_step), (frame_len, 1)).T
    )
    indices = np.array(indices, dtype=np.int32)
    frames = padsignal[indices]
    win = np.tile(winfunc(frame_len), (numframes, 1))
    return frames * win


def mfcc(signal, numcep=8, preemph=0.97, ceplifter=22):
    signal = np.append(signal[0], signal[1:] - preemph * signal[:-1])
    frames = framesig(signal, 200, 80)
    complex_spec = np.fft.rfft(frames, 256)
    pspec = 1.0 / 256 * np.square(np.absolute(complex_spec))
    energy = np.sum(pspec, 1)
    energy = np.where(energy == 0, np.finfo(float).eps, energy)
    feat = np.dot(pspec, get_filterbanks().T)
    feat = np.where(feat == 0, np.finfo(float).eps, feat)
    feat = np.log(feat)
    feat = dct(feat, type=2, axis=1, norm="ortho")[:, :numcep]
    n = np.arange(numcep)
    lift = 1 + (ceplifter / 2.0) * np.sin(np.pi * n / ceplifter)
    feat = lift * feat
    feat[:, 0] = np.log(energy)
    return feat


def pitch(x, fs):
    corr = np.correlate(x, x, mode="full")
    corr = corr[len(corr) // 2 :]
    d = np.diff(corr)
    start = np.nonzero(d > 0)[0][0]
    peak = np.argmax(corr[start:]) + start
    a, b, c = corr[peak - 1], corr[peak], corr[peak + 1]
    px = 0.5 * (a - c) / (a - 2 * b + c) + peak
    return fs / px


def main(f0, formants, bandwidth):
    fs = 8000
    t = np.arange(0, 0.06, 1 / fs)
    source = np.zeros_like(t)
    for k in range(1, 8):
        source += np.sin(2 * np.pi * k * f0 * t) / k
    y = source
    for f in formants:
        r = np.exp(-np.pi * bandwidth / fs)
        y = lfilter([1 - r], [1, -2 * r * np.cos(2 * np.pi * f / fs), r**2], y)
    y /= np.max(np.abs(y))
    feats = mfcc(y)
    delta = np.gradient(feats, axis=0)
    seg = y[100:400] * get_window("hann", 300)
    return feats.mean() + np.abs(delta).sum() / 100 + pitch(seg, fs) / 100


ARGUMENTS = (140.0, [700.0, 1220.0], 130.0)


def check():
    assert abs(mel2hz(hz2mel(440.0)) - 440.0) < 1e-9
