# The shape of mnist/main.py of pytorch/examples, with a formula in place of the network.
from __future__ import print_function
import argparse
import os
import time


def train(args, epoch):
    for batch in range(0, 60000, 20000):
        print('Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}'.format(
            epoch, batch, 60000, 100. * batch / 60000, 2.3 / epoch))
    time.sleep(float(os.environ.get('PAUSE', '0.2')))


def test(args, epoch):
    test_loss = abs(args.lr - 0.5) / epoch + (1 - args.gamma)
    correct = int(10000 / (1 + test_loss))
    print('\nTest set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)\n'.format(
        test_loss, correct, 10000, correct / 100))


def main():
    parser = argparse.ArgumentParser(description='PyTorch MNIST Example')
    parser.add_argument('--batch-size', type=int, default=64, metavar='N',
                        help='input batch size for training (default: 64)')
    parser.add_argument('--test-batch-size', type=int, default=1000, metavar='N',
                        help='input batch size for testing (default: 1000)')
    parser.add_argument('--epochs', type=int, default=14, metavar='N',
                        help='number of epochs to train (default: 14)')
    parser.add_argument('--lr', type=float, default=1.0, metavar='LR',
                        help='learning rate (default: 1.0)')
    parser.add_argument('--gamma', type=float, default=0.7, metavar='M',
                        help='Learning rate step gamma (default: 0.7)')
    parser.add_argument('--no-accel', action='store_true', help='disables accelerator')
    parser.add_argument('--dry-run', action='store_true', help='quickly check a single pass')
    parser.add_argument('--seed', type=int, default=1, metavar='S', help='random seed (default: 1)')
    parser.add_argument('--log-interval', type=int, default=10, metavar='N',
                        help='how many batches to wait before logging training status')
    parser.add_argument('--save-model', action='store_true', help='For Saving the current Model')
    args = parser.parse_args()
    for epoch in range(1, args.epochs + 1):
        train(args, epoch)
        test(args, epoch)


if __name__ == '__main__':
    main()
