"""Learning: a convolutional network by im2col, with hand-written backward pass and batch norm."""

import numpy as np


def get_im2col_indices(x_shape, field_height, field_width, padding=1, stride=1):
    N, C, H, W = x_shape
    assert (H + 2 * padding - field_height) % stride == 0
    out_height = int((H + 2 * padding - field_height) / stride + 1)
    out_width = int((W + 2 * padding - field_width) / stride + 1)
    i0 = np.repeat(np.arange(field_height), field_width)
    i0 = np.tile(i0, C)
    i1 = stride * np.repeat(np.arange(out_height), out_width)
    j0 = np.tile(np.arange(field_width), field_height * C)
    j1 = stride * np.tile(np.arange(out_width), out_height)
    i = i0.reshape(-1, 1) + i1.reshape(1, -1)
    j = j0.reshape(-1, 1) + j1.reshape(1, -1)
    k = np.repeat(np.arange(C), field_height * field_width).reshape(-1, 1)
    return (k.astype(int), i.astype(int), j.astype(int))


def im2col_indices(x, fh, fw, padding=1, stride=1):
    p = padding
    x_padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), mode="constant")
    k, i, j = get_im2col_indices(x.shape, fh, fw, padding, stride)
    cols = x_padded[:, k, i, j]
    C = x.shape[1]
    return cols.transpose(1, 2, 0).reshape(fh * fw * C, -1)


def col2im_indices(cols, x_shape, fh=3, fw=3, padding=1, stride=1):
    N, C, H, W = x_shape
    x_padded = np.zeros((N, C, H + 2 * padding, W + 2 * padding), dtype=cols.dtype)
    k, i, j = get_im2col_indices(x_shape, fh, fw, padding, stride)
    cols_reshaped = cols.reshape(C * fh * fw, -1, N).transpose(2, 0, 1)
    np.add.at(x_padded, (slice(None), k, i, j), cols_reshaped)
    if padding == 0:
        return x_padded
    return x_padded[:, :, padding:-padding, padding:-padding]


def conv_forward(X, W, b, stride=1, padding=1):
    n_filters, d, h, w = W.shape
    n_x, d_x, h_x, w_x = X.shape
    h_out = (h_x - h + 2 * padding) // stride + 1
    w_out = (w_x - w + 2 * padding) // stride + 1
    X_col = im2col_indices(X, h, w, padding=padding, stride=stride)
    out = W.reshape(n_filters, -1) @ X_col + b
    out = out.reshape(n_filters, h_out, w_out, n_x).transpose(3, 0, 1, 2)
    return out, (X, W, X_col)


def conv_backward(dout, cache):
    X, W, X_col = cache
    n = W.shape[0]
    db = np.sum(dout, axis=(0, 2, 3)).reshape(n, -1)
    d = dout.transpose(1, 2, 3, 0).reshape(n, -1)
    dW = (d @ X_col.T).reshape(W.shape)
    dX = col2im_indices(W.reshape(n, -1).T @ d, X.shape)
    return dX, dW, db


def batchnorm(X, gamma, beta, running):
    mu = X.mean(axis=0)
    var = np.var(X, axis=0)
    running["mean"] = 0.9 * running.get("mean", 0) + 0.1 * mu
    return gamma * (X - mu) / np.sqrt(var + 1e-5) + beta


def maxpool(X, size=2):
    n, c, h, w = X.shape
    return X.reshape(n, c, h // size, size, w // size, size).max(axis=(3, 5))


def main(W1, gamma, W2):
    rs = np.random.RandomState(5)
    X = rs.randn(4, 1, 6, 6)
    y = np.array([0, 1, 1, 0])
    running = {}
    h, cache = conv_forward(X, W1, np.full((2, 1), 0.1))
    a = np.where(h > 0, h, 0.01 * h)
    p = maxpool(a).reshape(4, -1)
    bn = batchnorm(p, gamma, 0.0, running)
    scores = bn @ W2
    scores -= np.max(scores, axis=1, keepdims=True)
    prob = np.exp(scores) / np.sum(np.exp(scores), axis=1, keepdims=True)
    loss = -np.mean(np.log(prob[range(4), y]))
    dscores = prob.copy()
    dscores[range(4), y] -= 1
    dscores /= 4
    dW2 = p.T.dot(dscores)
    dh = np.zeros_like(h)
    dh[:, :, ::2, ::2] = (dscores @ W2.T).reshape(4, 2, 3, 3)
    dX, dW1, db1 = conv_backward(dh, cache)
    acc = np.mean(np.argmax(scores, axis=1) == y)
    print(f"loss {loss:.4f} acc {acc:.2%}")
    return (
        loss
        + 0.1 * np.linalg.norm(dW1)
        + 0.05 * np.abs(dW2).sum()
        + 0.1 * np.sum(running["mean"])
        + 0.01 * dX.std()
    )


rs_ = np.random.RandomState(2)
ARGUMENTS = (0.5 * rs_.randn(2, 1, 3, 3), np.float64(1.2), 0.3 * rs_.randn(18, 2))


def check():
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    assert col2im_indices(im2col_indices(x, 3, 3), x.shape)[0, 0, 0, 0] == 0.0
